"""Counters, kernels and trace of a measurement compared with its baseline."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pytest_gpuperf import metrics as catalogue
from pytest_gpuperf.judge.result import Finding, Status
from pytest_gpuperf.metrics import Tier
from pytest_gpuperf.records.change import Change, show_pair, show_value
from pytest_gpuperf.records.trace import EXACT_VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gpuperf.records import Measurement, MetricValue, Profile
    from pytest_gpuperf.records.baseline import MeasurementBaseline

NEAR_EXACT_PCT = 0.1
"""Tolerance of a count of work that one session has read; none if several sessions agree."""
NEAR_EXACT_RANGES = 3.0
"""Tolerance of a count of work if several sessions disagree: this many times their range, if that is more
than `NEAR_EXACT_PCT`, up to `STATE_PCT`. Without that bound each accepted value would let the next one stray
further."""
STATE_PCT = 2.0
"""Tolerance of a counter that depends on clocks and caches."""
STATE_POINTS = 1.0
"""Second tolerance of such a counter in %: percentage points."""
READ_ALIKE = frozenset({"achieved_occupancy", "tensor_active"})
"""Counters that depend on the GPU's state, on which ncu and CUPTI agree within these tolerances for each
kernel of `benchmarks/results/counter_agreement.json`. They agree on exact ones and counts of work, too."""
LEFT_OUT = "those on which the two disagree are not compared"
SHOWN_CHANGES = 4
"""Maximum number of changed counters below a finding; reports show the rest."""

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_COUNTS = frozenset({"byte", "inst", "sector", "request", "op", "cycle"})
_UNITS = {"byte": "B", "us": "µs", "%": "%", "GB/s": "GB/s", "TFLOP/s": "TFLOP/s", "MHz": "MHz"}
"""Units that a name does not say."""
# A baseline file rounds a count, and an exact value that is not a whole number, to six digits.
_EXACT_RELATIVE = 1e-5


class CounterComparison(msgspec.Struct, frozen=True, dict=True):
    """Counters, kernels and trace of a measurement compared with its baseline."""

    changes: tuple[Change, ...] = ()
    """Values that moved beyond their tolerance: first those of the trace, then the largest mover."""
    worse_exact: tuple[Change, ...] = ()
    """Changes for the worse that have no tolerance: each is a regression unless the time improved."""
    work: tuple[Change, ...] = ()
    """Changes of counts of work, in either direction, that are not negligible."""
    compared: bool = False
    """True if a counter was compared."""
    chosen_otherwise: str = ""
    """Difference in the choice of launches, so that no counter was compared; else empty."""
    read_otherwise: str = ""
    """Difference in the tool or the caches, so that few state counters were compared; else empty."""
    kernels: str = ""
    """Kernels that are new or gone; empty if none is."""
    remarks: tuple[Finding, ...] = ()
    """Contradictions of the trace, and counters that were not measured or not compared."""
    findings: tuple[Finding, ...] = ()
    """Findings for a time that neither regressed nor improved; else the finding of the time shows the
    counters, and exact ones may have paid for a better time."""

    @cached_property
    def details(self) -> tuple[str, ...]:
        """A line for the kernels, and one for each of the largest changes."""
        return _detail_lines(self)

    @property
    def same_work(self) -> bool:
        """True if the counters say that the GPU did the same work."""
        return self.compared and not (self.work or self.worse_exact or self.kernels)


def compare_counters(
    measurement: Measurement, baseline: MeasurementBaseline, label: str = "main", accept: str = ""
) -> CounterComparison:
    """Compare the counters, kernels and trace of a measurement with its baseline.

    Counters have three tiers. An exact one (registers, occupancy, launches) has no tolerance, nor has a count
    that was 0. A near-exact one, which counts work, is shown beyond 0.1 % if one session has read it; beyond
    the larger of that and 3 times the range, up to 2 %, if several sessions differ; always if they agree. One
    that depends on the GPU's state is shown beyond 2 %, and one in % only beyond 1 point, too. If other
    kernels run, no exact counter is a regression: they may pay for speed with registers.

    Another tool, or other caches, change counters that depend on the GPU's state, so of these only
    `READ_ALIKE` are compared then. If other launches of the call were chosen, no counter is.

    Args:
        measurement: The measured values.
        baseline: The expected values.
        label: The measurement's label, for the findings.
        accept: Command to type if a change is intended, for the findings.
    """
    compared = _compare(measurement, baseline)
    return replace(
        compared,
        remarks=tuple(_remarks(compared, measurement, baseline, label)),
        findings=tuple(_findings(compared, label, accept)),
    )


def _compare(measurement: Measurement, baseline: MeasurementBaseline) -> CounterComparison:
    traced = _compare_trace(measurement, baseline)
    worse_traced = tuple(change for change in traced if change.worse)
    profile = measurement.profile
    if profile is None or profile.unavailable:
        return CounterComparison(traced, worse_traced)
    of_others = chosen_otherwise(profile, baseline)
    if of_others:
        return CounterComparison(traced, worse_traced, chosen_otherwise=of_others)
    counters: list[tuple[float, Change]] = []
    worse_exact: list[Change] = []
    work: list[Change] = []
    read_otherwise = _read_otherwise(profile, baseline)
    for name, actual in profile.combined.items():
        expected = baseline.counters.get(name)
        if expected is None or expected == actual or _alike(name, expected, actual):
            continue
        if read_otherwise and not is_read_alike(name):
            continue
        found = _compare_counter(name, expected, actual, baseline)
        if found is None:
            continue
        movement, change, exact = found
        counters.append((movement, change))
        if is_near_exact(name) and not _negligible(change):
            work.append(change)
        # Fewer blocks by a resource that is not the limiter cost nothing: theoretical occupancy tells.
        if exact and change.worse and not name.startswith("occupancy_limit."):
            worse_exact.append(change)
    counters.sort(key=lambda entry: -entry[0])
    kernels = _compare_kernels(profile, baseline)
    return CounterComparison(
        changes=(*traced, *(change for _, change in counters)),
        worse_exact=worse_traced + (() if kernels else tuple(worse_exact)),
        work=tuple(work),
        compared=not profile.combined.keys().isdisjoint(baseline.counters),
        read_otherwise=read_otherwise,
        kernels=kernels,
    )


def _remarks(
    compared: CounterComparison, measurement: Measurement, baseline: MeasurementBaseline, label: str
) -> Iterator[Finding]:
    contradiction = _tensor_contradiction(measurement)
    if contradiction:
        yield Finding(Status.PASS, contradiction, label)
    profile = measurement.profile
    if profile is not None and not profile.unavailable and profile.preset:
        missing = len([name for name in baseline.counters if name not in profile.combined])
        if missing:
            line = f"{missing} counters of the baseline were not measured (preset {profile.preset})"
            yield Finding(Status.PASS, line, label)
    if compared.chosen_otherwise:
        yield Finding(Status.PASS, f"{compared.chosen_otherwise}: not compared", label)
    if compared.read_otherwise:
        yield Finding(Status.PASS, f"{compared.read_otherwise}: {LEFT_OUT}", label)


def _findings(compared: CounterComparison, label: str, accept: str) -> Iterator[Finding]:
    if compared.kernels:
        yield Finding(
            Status.PASS, "other kernels run, so exact counters are not judged", label, compared.details
        )
    if compared.worse_exact:
        first, *others = compared.worse_exact
        actual, expected = show_pair(first.actual, first.baseline)
        more = f", and {len(others)} more" if others else ""
        line = f"{first.metric} {actual} is worse than the baseline {expected} (no tolerance){more}"
        yield Finding(Status.REGRESSED, line, label, compared.details, accept)
    more_work = [change for change in compared.work if change.worse]
    if more_work:
        yield Finding(Status.PASS, f"{more_work[0]} at the same time: an early warning", label)


def _detail_lines(compared: CounterComparison) -> tuple[str, ...]:
    """Return a line for the kernels, and one for each of the largest changes."""
    details = [compared.kernels] if compared.kernels else []
    ranked = sorted(compared.changes, key=lambda change: -abs(change.change_pct or math.inf))
    details += [in_units(change) for change in ranked[:SHOWN_CHANGES]]
    if len(ranked) > SHOWN_CHANGES:
        details.append(f"and {len(ranked) - SHOWN_CHANGES} more counters (gpuperf report)")
    return tuple(details)


def in_units(change: Change) -> str:
    """Return `dram_bytes 524 -> 1,049 MB (+100.0 %)`: large numbers by their prefix."""
    metric = catalogue.get(change.metric)
    unit = metric.unit if metric is not None else ""
    before, now = change.baseline, change.actual
    if isinstance(before, str) or isinstance(now, str):
        return str(change)
    least = min(filter(None, (abs(before), abs(now))), default=0.0)
    prefixes = (pair for pair in _PREFIXES if unit in _COUNTS and least >= pair[0])
    scale, prefix = next(prefixes, (1.0, ""))
    shown = Change(change.metric, before / scale, now / scale, change.change_pct, change.worse)
    values, _, relative = str(shown).partition(" (")
    text = f"{values} {prefix}{_UNITS.get(unit, '')}".rstrip()
    return f"{text} ({relative}" if relative else text


def _compare_trace(measurement: Measurement, baseline: MeasurementBaseline) -> tuple[Change, ...]:
    """Return the exact values of the trace that changed; more is worse for all of them."""
    now = measurement.trace.exact if measurement.trace is not None else {}
    pairs = [(name, before, now[name]) for name, before in baseline.trace.items() if name in now]
    return tuple(
        Change(name, before, actual, 100 * (actual / before - 1) if before else None, actual > before)
        for name, before, actual in pairs
        if actual != before
    )


def _read_otherwise(profile: Profile, baseline: MeasurementBaseline) -> str:
    if not baseline.counters or profile.read_by == baseline.counters_by:
        return ""
    return f"counters were read by {profile.read_by}, the baseline's by {baseline.counters_by}"


def chosen_otherwise(profile: Profile, baseline: MeasurementBaseline) -> str:
    """Return how the launches of a profile and of a baseline were chosen differently; else an empty text.

    If another regex finds kernels of other names, they show as new and gone kernels instead.
    """
    if not baseline.counters or not baseline.launches:
        return ""
    now, then = (profile.launches or "all", profile.regex), (baseline.launches, baseline.regex)
    if now == then or (now[0] == then[0] and _compare_kernels(profile, baseline)):
        return ""
    shown = (
        f"launches={launches} of " + (f"kernels={regex!r}" if regex else "all kernels")
        for launches, regex in (now, then)
    )
    return "counters are of {}, the baseline's of {}".format(*shown)


def is_exact(name: str) -> bool:
    """Return True if a metric is a fact of the compiled kernel or its launch, or of a call's launches."""
    if name in EXACT_VALUES:
        return True
    metric = catalogue.get(name)
    return metric is not None and metric.tier is Tier.EXACT


def is_read_alike(name: str) -> bool:
    """Return True if ncu and CUPTI read the same value of a metric."""
    return name in READ_ALIKE or is_exact(name) or is_near_exact(name)


def is_near_exact(name: str) -> bool:
    """Return True if a metric counts the work done."""
    metric = catalogue.get(name)
    return metric is not None and metric.tier is Tier.NEAR_EXACT


def _negligible(change: Change) -> bool:
    """Return True if a change that is shown, because sessions agree, is too small to move a time."""
    return change.change_pct is not None and abs(change.change_pct) < NEAR_EXACT_PCT


def _alike(name: str, expected: MetricValue, actual: MetricValue) -> bool:
    """Return True for numbers that differ by less than any tolerance of their tier, as most in a run do."""
    if isinstance(expected, str) or isinstance(actual, str):
        return False
    return abs(actual - expected) <= _least_tolerance(name) * abs(expected)


@lru_cache(maxsize=4096)
def _least_tolerance(name: str) -> float:
    """Return a part of a counter's value by which it may differ: at least rounding, which no tier minds."""
    return _EXACT_RELATIVE if is_exact(name) or is_near_exact(name) else STATE_PCT / 200


def _compare_counter(
    name: str, expected: MetricValue, actual: MetricValue, baseline: MeasurementBaseline
) -> tuple[float, Change, bool] | None:
    metric = catalogue.get(name)
    tier = Tier.STATE if metric is None else metric.tier
    exact = tier is Tier.EXACT
    if isinstance(expected, str) or isinstance(actual, str):
        return math.inf, Change(name, expected, actual, None, worse=None), exact
    difference = actual - expected
    relative = 100 * difference / abs(expected) if expected else None
    movement = math.inf if relative is None else abs(relative)
    if tier is Tier.NEAR_EXACT:
        # From 0 to more is a change of kind: a kernel that spills now.
        exact = not expected and name not in baseline.counters_range
        if abs(difference) <= _near_exact_tolerance(name, abs(expected), baseline):
            return None
    elif not exact:
        if movement <= STATE_PCT:
            return None
        if metric is not None and metric.unit == "%":
            movement = abs(difference)
            if movement <= STATE_POINTS:
                return None
    better = metric.better if metric is not None else ""
    worse = difference > 0 if better == "lower" else difference < 0 if better == "higher" else None
    return movement, Change(name, expected, actual, relative, worse), exact


def _near_exact_tolerance(name: str, expected: float, baseline: MeasurementBaseline) -> float:
    """Return the tolerance of a count of work, in its own unit."""
    if baseline.counters_sessions > 1 and name not in baseline.counters_range:
        return _EXACT_RELATIVE * expected
    least, most = baseline.counters_range.get(name, (0.0, 0.0))
    seen = NEAR_EXACT_RANGES * abs(most - least)
    # A count that was 0 has no relative tolerance.
    most_of_all = STATE_PCT / 100 * expected or seen
    return max(NEAR_EXACT_PCT / 100 * expected, min(seen, most_of_all))


def _compare_kernels(profile: Profile, baseline: MeasurementBaseline) -> str:
    if not baseline.kernels:
        return ""
    actual = distinct_kernels(profile)
    added = [name for name in actual if name not in baseline.kernels]
    gone = [name for name in baseline.kernels if name not in actual]
    parts = []
    if added:
        parts.append(f"now runs {', '.join(added)}")
    if gone:
        parts.append(f"no longer runs {', '.join(gone)}")
    return "; ".join(parts)


def distinct_kernels(profile: Profile) -> tuple[str, ...]:
    """Return the names of the kernels of a profile, each once, in the order of their first launch."""
    return tuple(dict.fromkeys(kernel.name for kernel in profile.kernels))


def _tensor_contradiction(measurement: Measurement) -> str:
    """Return a remark if the tensor pipe's counter contradicts the kernels' names; else an empty text."""
    trace, profile = measurement.trace, measurement.profile
    active = profile.combined.get("tensor_active") if profile is not None else None
    if trace is None or profile is None or not isinstance(active, float | int):
        return ""
    by_name = trace.tensor_core_share_pct
    if active > 0 and not by_name and not trace.tensor_cores_unknown_pct:
        return f"tensor_active is {show_value(active)} %, though no kernel of the trace is named as if it was"
    # A regex may have left out the kernels that use them.
    if not active and by_name and not profile.regex:
        said = f"{show_value(by_name)} % of the GPU time is in kernels named as if they used tensor cores"
        return f"{said}, but tensor_active is 0"
    return ""
