"""Limits: `memory_throughput >= 60`, read with a small grammar and checked against a measurement.

A limit is `NAME OP VALUE [UNIT]`. NAME is a metric of the catalogue, a raw ncu name, or one of `VALUES`: of a
time (`time_us`), a trace (`launches`) or an accuracy (`max_ulp`).
`LABEL / LABEL` is the time of one callable over that of another, in turn.
OP is one of `>= <= > < == !=`. VALUE is a number, optionally with the metric's own unit, or a word if the
metric's value is one (`occupancy_limiter != registers`). For `tensor_instructions` and
`copy_instructions`, which are several words, a limit is `WORD in NAME` or `WORD not in NAME`. The prefix
`sm_90:` restricts it to kernels compiled for `sm_90`, and `backward:` to the measurement of that label.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec.structs import replace

from pytest_gpuperf import metrics as catalogue
from pytest_gpuperf.errors import GpuperfError, show_repr
from pytest_gpuperf.judge.result import Finding, Status
from pytest_gpuperf.judge.settled_suspects import SpeedUp, speed_up
from pytest_gpuperf.judge.times import process_spread_pct
from pytest_gpuperf.metrics.presets import metrics_of
from pytest_gpuperf.records.change import show_pair, show_value
from pytest_gpuperf.records.value_names import COMPILE, PEAK_MEMORY, VALUES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_gpuperf.records import (
        AgainstTiming,
        Measurement,
        MetricValue,
        Profile,
        Timing,
        Trace,
    )
    from pytest_gpuperf.records.baseline import MeasurementBaseline

_COMPARE: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    ">=": (operator.ge, "is below"),
    "<=": (operator.le, "is above"),
    ">": (operator.gt, "is not above"),
    "<": (operator.lt, "is not below"),
    "==": (operator.eq, "is not at"),
    "!=": (operator.ne, "is at"),
    "in": (lambda words, word: word in str(words).split(), "breaks"),
    "not in": (lambda words, word: word not in str(words).split(), "breaks"),
}
"""The condition, and the words if it does not hold."""
_MEASURED = {"spills": "local_spill_instructions"}
"""Counters that stand for facts of compilers in measurements: both are 0 if nothing spills."""
_LISTS = frozenset({"tensor_instructions", "copy_instructions"})
_OF_RANKS = {
    "skew_us": "gpuperf_ranks",
    "exposed_us": "gpuperf_ranks, on GPUs",
    "bus_gb_per_s": "collective= and bytes= of the time() of gpuperf_ranks",
}
_ONLY = r"\s* (?:(?P<only>\S(?:.*\S)?) \s* : \s*)?"
_ARCH = re.compile(r"sm_\d+[af]?", re.ASCII)
_GRAMMAR = re.compile(
    _ONLY
    + r"""(?: (?P<name>[\w.]+) | (?P<above>[^\s/:<>=!][^/:<>=!]*?) \s*/\s* (?P<below>[^/:<>=!]*?[^\s/:<>=!]) )
    \s* (?P<op>>=|<=|==|!=|>|<) \s*
    (?: (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?) | (?P<word>[A-Za-z]\w*) ) \s*
    (?P<unit>[^\s\d.+-]\S*)? \s*""",
    re.ASCII | re.DOTALL | re.VERBOSE,
)
_MEMBER = re.compile(
    _ONLY
    + r"""(?P<quote>['"]?) (?P<word>[A-Za-z][\w.]*) (?P=quote) \s+
    (?P<op>in|not\s+in) \s+ (?P<name>\w+) \s*""",
    re.ASCII | re.DOTALL | re.VERBOSE,
)
_LONGEST = 200
"""Maximum number of characters: the text that `str(Limit)` makes fits into a record."""


@dataclass(frozen=True)
class Limit:
    """Limit on one value."""

    name: str
    op: str
    """One of `>= <= > < == !=`, or `in` and `not in`."""
    value: float | str
    """In the metric's unit."""
    only: str = ""
    """Label or architecture that it is for; empty for all."""
    doubt: str = field(default="", compare=False)
    """Reason to warn of it; empty for none."""

    def __str__(self) -> str:
        """Return `memory_throughput >= 60`, which `parse_limit` reads."""
        whole = self.bound if self.name in _LISTS else f"{self.name} {self.bound}"
        return f"{self.only}: {whole}" if self.only else whole

    @property
    def arch(self) -> str:
        """Architecture that it is for; empty for all, and for measurements."""
        return self.only if _ARCH.fullmatch(self.only) else ""

    @property
    def measured_name(self) -> str:
        """Counter that is measured for it."""
        return _MEASURED.get(self.name, self.name)

    @property
    def pair(self) -> tuple[str, ...]:
        """Labels of the two callables whose times it compares; empty for another value."""
        return tuple(self.name.split(" / ")) if "/" in self.name else ()

    def is_for(self, label: str) -> bool:
        """Return True if the limit is for measurements of this label."""
        if self.pair and label not in self.pair:
            return False
        return self.only in ("", label) or (bool(self.arch) and label.endswith(f"[{self.arch}]"))

    def holds(self, value: MetricValue) -> bool:
        """Return True if a value is within the limit."""
        return _COMPARE[self.op][0](value, self.value)

    @property
    def bound(self) -> str:
        """Bound without the name: `>= 60`, or `wgmma in tensor_instructions`."""
        value = self.value
        if self.name in _LISTS:
            return f"{value} {self.op} {self.name}"
        if isinstance(value, float):
            value = repr(value).removesuffix(".0")
        return f"{self.op} {value}"

    @property
    def part(self) -> Literal["timing", "trace", "correctness", "profile", "in_turn"]:
        """Field of a `Measurement` that it is about."""
        if self.pair:
            return "in_turn"
        return VALUES[self.name].part if self.name in VALUES else "profile"


@lru_cache(maxsize=4096)
def parse_limit(text: str) -> Limit:
    """Read one limit.

    Raises:
        GpuperfError: It does not follow the grammar, or nothing has this name.
    """
    expected = "a limit such as 'memory_throughput >= 60'"
    if len(text) > _LONGEST:
        expected = f"at most {_LONGEST} characters"
    elif (found := _MEMBER.fullmatch(text)) is not None:
        only, word, op, name = found.group("only", "word", "op", "name")
        _check_name(name)
        if name in _LISTS:
            return Limit(name, " ".join(op.split()), word, only or "")
    elif (found := _GRAMMAR.fullmatch(text)) is not None:
        only, name, op, number, word, unit = found.group("only", "name", "op", "number", "word", "unit")
        if name is None:
            name = "{above} / {below}".format(**found.groupdict())
        else:
            _check_name(name)
        is_word = name in catalogue.WORDS
        if number is not None and not is_word and math.isfinite(float(number)):
            doubt = _check_unit(text, name, unit, float(number))
            return Limit(name, op, float(number), only or "", doubt)
        if name in _LISTS:
            expected = f"such as 'wgmma in {name}'"
        elif word and not unit and op in ("==", "!=") and (is_word or catalogue.is_raw_name(name)):
            return Limit(name, op, word, only or "")
        else:
            expected = f"{'== or != and a word' if is_word else 'a number'} behind {name}"
    swapped = next((f"did you mean {op[::-1]}?" for op in ("=>", "=<") if op in text), "")
    raise GpuperfError(f"the limit {show_repr(text)} cannot be read", expected=expected, next_step=swapped)


def _check_name(name: str) -> None:
    if name in VALUES or catalogue.get(name) is not None or catalogue.is_raw_name(name):
        return
    near = catalogue.nearest(name, VALUES)
    raise GpuperfError(
        f"there is no metric {show_repr(name)}",
        expected=f"{' or '.join(map(repr, near))}" if near else "a name of the catalogue or a raw ncu name",
    )


def _check_unit(text: str, name: str, unit: str | None, value: float) -> str:
    """Refuse another unit than the metric's, and return a reason to doubt the value."""
    metric = catalogue.get(name)
    own = VALUES[name].unit if name in VALUES else metric.unit if metric is not None else ""
    if metric is None and catalogue.is_raw_name(name) and ("pct" in name or name.endswith("_rate")):
        own = "%"
    if unit is not None and unit.replace("µ", "u") != own:
        raise GpuperfError(
            f"the limit {show_repr(text)} has the unit {unit!r}",
            expected=f"{own!r} or none" if own else "none",
        )
    if own == "%" and unit is None and 0 < value <= 1:
        as_share = f"{100 * value:g}"
        return (
            f"the limit {show_repr(text)} is at {value:g} %; expected a number of percent: {as_share} for "
            f"{as_share} %, or '{value:g} %' if it is meant so"
        )
    return ""


def parse_limits(limits: Mapping[str, str] | Iterable[str] | str) -> tuple[Limit, ...]:
    """Read limits: `{"memory_throughput": ">= 60"}`, `["memory_throughput >= 60"]`, or one limit alone.

    Raises:
        GpuperfError: One of them cannot be read.
    """
    if isinstance(limits, str):
        return (parse_limit(limits),)
    texts = (f"{name} {bound}" for name, bound in limits.items()) if isinstance(limits, Mapping) else limits
    return tuple(map(parse_limit, texts))


class _Missing(NamedTuple):
    """A value that a measurement does not have."""

    why: str
    by_machine: bool = False
    """True if no change of the test helps: then the limit is not judged."""


def check_limit(
    limit: Limit,
    measurement: Measurement,
    source: str = "",
    baseline: MetricValue | None = None,
) -> Finding:
    """Compare one value with its limit; the message shows the owner of the limit and the value's baseline.

    Returns:
        `limit`: broken; `inconclusive`: by less than processes differ; `invalid`: not judged, and the user
        must fix the test; `pass`: holds, without a line, or not judged for a reason on the machine's side.
    """
    name, shown = limit.name, f"the limit {limit.bound}" + (f" {source}" if source else "")
    actual = _value(limit, measurement)
    if isinstance(actual, _Missing):
        if actual.by_machine:
            return Finding(Status.PASS, f"{name} {actual.why}, so {shown} is not judged")
        return Finding(Status.INVALID, f"{name} was not measured for {shown}: {actual.why}")
    bounds: Sequence[float] = ()
    within = "within its interval"
    if isinstance(actual, SpeedUp):
        actual, *bounds = actual
    if isinstance(actual, str) is not isinstance(limit.value, str):
        kind = "a word" if isinstance(actual, str) else "a number"
        return Finding(Status.INVALID, f"{name} is {kind}, {actual}, and cannot be compared with {shown}")
    if limit.holds(actual):
        return Finding(Status.PASS, "")
    value, _ = show_pair(actual, limit.value)
    if bounds:
        value += " ({:.4g} to {:.4g})".format(*bounds)
    timing = measurement.timing
    if timing is not None and name in VALUES and VALUES[name].of_process:
        # Other processes may find a value that is so far away.
        spread = process_spread_pct(timing)
        bounds = [float(actual) * (1 + spread / 100) ** sign for sign in (-1, 1)]
        within = f"by less than processes differ ({spread:.1f} %)"
    if limit.op not in ("==", "!=") and any(map(limit.holds, bounds)):
        return Finding(Status.INCONCLUSIVE, f"{name} {value} is across {shown}, {within}")
    expected = "" if baseline is None else f" (baseline {show_value(baseline)})"
    accuracy = measurement.accuracy
    if limit.part == "correctness" and name != "same_bits" and accuracy is not None:
        inexact = accuracy.reference not in ("float64", "complex128")
        shown += f" against a reference in {accuracy.reference} ({accuracy.note})" if inexact else ""
    return Finding(Status.LIMIT, f"{name} {value} {_COMPARE[limit.op][1]} {shown}{expected}")


def check_limits(
    limits: Iterable[Limit],
    source: str,
    measured: Mapping[str, Measurement],
    baselines: Mapping[str, MeasurementBaseline],
) -> Iterator[Finding]:
    """Compare the values of a test, by label, with their limits; messages show owner and baseline."""
    for limit in limits:
        labels = [label for label in measured if limit.is_for(label)]
        # A test that only times one of its callables has a limit on counters for the others.
        able = [label for label in labels if getattr(measured[label], limit.part) is not None]
        if len({measured[label].is_static for label in able}) > 1:
            # A compiler knows registers and no throughput; it alone knows its instructions.
            able = [label for label in able if _is_asked(limit, measured[label])]
        able = able or (list(measured) if limit.pair else labels)[:1]
        if not able:
            done = "compiled" if limit.arch and measured else "measured"
            done += f" nothing for {limit.only}" if limit.only and measured else " nothing"
            if limit.only and not limit.arch:
                done += "; a prefix is a label or an architecture, and kernels= chooses kernels"
            yield Finding(Status.INVALID, f"the limit {limit} {source} cannot be judged: the test {done}")
        for label in able:
            known = _known_value(limit.name, baselines.get(label))
            found = check_limit(limit, measured[label], source, known)
            if found.line:
                yield replace(found, label=label)


def _is_asked(limit: Limit, measurement: Measurement) -> bool:
    """Return True if a limit of a test with both is for a measurement, or for a compiled kernel."""
    if measurement.is_static and measurement.profile is not None:
        return limit.name in measurement.profile.combined
    return limit.name not in catalogue.COMPILED_ONLY


def _known_value(name: str, baseline: MeasurementBaseline | None) -> MetricValue | None:
    if baseline is None:
        return None
    known = {**baseline.counters, **baseline.exact}
    known |= baseline.accuracy.values if baseline.accuracy is not None else {}
    known |= {"time_us": baseline.time.mean_us} if baseline.time is not None else {}
    return known.get(name)


def _value(limit: Limit, measurement: Measurement) -> MetricValue | SpeedUp | _Missing:
    timing, profile = measurement.timing, measurement.profile
    trace, checked = measurement.trace, measurement.correctness
    if limit.part == "in_turn":
        return _of_pair(limit.pair, measurement.in_turn)
    if limit.part == "timing":
        return _of_timing(limit.name, timing) if timing is not None else _Missing("the test calls no time()")
    if limit.part == "profile":
        return _of_profile(limit, profile) if profile is not None else _Missing("the test calls no profile()")
    if limit.part == "trace":
        return _of_trace(limit, trace) if trace is not None else _Missing("the test calls no trace()")
    if checked is None:
        return _Missing("the test calls no check()")
    if (accuracy := checked.accuracy) is None:
        return _Missing("is not in the recorded check", by_machine=True)
    value = accuracy.values.get(limit.name)
    why = accuracy.note or f"the reference has no output in {accuracy.dtype}"
    return _Missing(why) if value is None else value


def _of_pair(pair: tuple[str, ...], against: AgainstTiming | None) -> SpeedUp | _Missing:
    found = speed_up(against) if against is not None and against.ref in pair else None
    if against is None or found is None:
        return _Missing("the test calls no compare() with both of them, one as the first")
    return found if against.ref == pair[0] else SpeedUp(1 / found.value, 1 / found.high, 1 / found.low)


def _of_timing(name: str, timing: Timing) -> MetricValue | _Missing:
    if (value := getattr(timing, name, None)) is not None:
        return float(value)
    if name == PEAK_MEMORY:
        return _Missing("is not known: torch counted nothing", by_machine=True)
    if name == COMPILE:
        return _Missing("is not known: its first call was not watched", by_machine=True)
    if name in _OF_RANKS:
        return _Missing(f"it needs {_OF_RANKS[name]}")
    keyword = "bytes" if name in ("gb_per_s", "dram_share") else "flops"
    given = getattr(timing, keyword)
    return _Missing("the peak of this GPU is not known" if given else f"the test gives time() no {keyword}=")


def _of_profile(limit: Limit, profile: Profile) -> MetricValue | _Missing:
    name, kernels, metric = limit.name, profile.kernels, catalogue.get(limit.name)
    if profile.unavailable:
        return _Missing("was not measured", by_machine=True)
    rows = [profile.combined, *(kernel.metrics for kernel in kernels if len(kernels) == 1)]
    # `spills` counts bytes if a kernel was compiled.
    names = [name, limit.measured_name][: 2 if limit.value == 0 else 1]
    for value in (row[one] for one in names for row in rows if one in row):
        return value
    if metric is not None and profile.chip and profile.chip not in metric.chips:
        return _Missing(f"is unavailable on {profile.chip.upper()}", by_machine=True)
    if len(kernels) > 1 and any(name in kernel.metrics for kernel in kernels):
        return _Missing(f"{len(kernels)} kernels have no common value of it; choose one with kernels=")
    if profile.preset and metric is not None and name not in metrics_of(profile.preset.split(",")):
        return _Missing(f"not measured (preset {profile.preset}); add it with metrics= in the marker")
    near = _MEASURED.get(name) or ", ".join(catalogue.nearest(name, profile.combined))
    return _Missing("the profile does not hold it" + (f"; the nearest names are {near}" if near else ""))


def _of_trace(limit: Limit, trace: Trace) -> MetricValue | _Missing:
    least = trace.values.get(limit.name)
    if least is None:
        return _Missing("not all kernels of graphs were recorded")
    unknown = trace.tensor_cores_unknown_pct if limit.name == "tensor_core_share" else 0.0
    if limit.holds(least) is not limit.holds(least + unknown):
        between = f"it is between {show_value(least)} and {show_value(least + unknown)}"
        why = "neither name nor code of some kernels tells; tensor_active of profile() does"
        return _Missing(f"{between}: {why}")
    return least
