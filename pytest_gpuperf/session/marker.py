"""The marker of a test, and the state of a test while it runs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pytest

from pytest_gpuperf.errors import GpuperfError, show_repr
from pytest_gpuperf.judge.limits import Limit, parse_limit, parse_limits
from pytest_gpuperf.metrics.presets import check_presets
from pytest_gpuperf.records import Measurement, SanitizerResult
from pytest_gpuperf.records.call import check_kernels, check_launches, checked
from pytest_gpuperf.records.number_ranges import MOST_LIMITS, Tolerance
from pytest_gpuperf.statistics.decision import MAX_TOLERANCE_PCT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.records.call import Launches

MOST_GPUS = 64
"""More GPUs than a host has."""
_Gpus = Annotated[int, msgspec.Meta(ge=1, le=MOST_GPUS)]


@dataclass(frozen=True)
class Marker:
    """The `gpuperf` markers of a test, the nearest first, as one."""

    regex: str | None = None
    """Finds the kernels to profile; None for all."""
    launches: Launches = "all"
    """Launches of those kernels to keep."""
    limits: tuple[Limit, ...] = ()
    tolerance_pct: float | None = None
    preset: tuple[str, ...] = ()
    """Names of the presets to read; empty for those of the options."""
    metrics: tuple[str, ...] = ()
    """More metrics to read, also for its limits: short names or raw ones."""
    gpus: int = 0
    """Number of GPUs that its calls run on at once; 0 for a test on one GPU without ranks."""

    @classmethod
    def of(cls, item: pytest.Item) -> Marker:
        """Read and check the markers of an item.

        Limits and metrics of class and module markers add up; the nearest `kernels`, `launches`, `tolerance`
        and `preset` count.

        Raises:
            GpuperfError: A marker has an unknown argument, a broken limit, a broken regex, an unknown
                preset, or impossible launches.
        """
        marks = list(item.iter_markers("gpuperf"))
        if not marks:
            return _NO_MARKER
        found: dict[str, list[Any]] = {key: [] for key in MARKER_CHECKS}
        where = f"in the gpuperf marker of {item.nodeid}"
        for mark in marks:
            unknown = mark.args or [key for key in mark.kwargs if key not in MARKER_CHECKS]
            if unknown:
                kind = ("positional " if mark.args else "") + f"argument{'s' * (len(unknown) > 1)}"
                names = ", ".join(map(show_repr, unknown))
                raise GpuperfError(
                    f"the gpuperf marker of {item.nodeid} has the {kind} {names}",
                    expected=f"keyword arguments out of {', '.join(MARKER_CHECKS)}",
                )
            # Each is checked, also if a nearer one hides it.
            for key, value in mark.kwargs.items():
                if value is not None or key == "metrics":
                    found[key].append(MARKER_CHECKS[key](value, where))
        limits = tuple(limit for some in found["limits"] for limit in some)
        metrics = [name for some in found["metrics"] for name in some]
        metrics += [limit.measured_name for limit in limits if limit.part == "profile"]
        return cls(
            regex=next(iter(found["kernels"]), None),
            launches=next(iter(found["launches"]), "all"),
            limits=limits,
            tolerance_pct=next(iter(found["tolerance"]), None),
            preset=next(iter(found["preset"]), ()),
            metrics=tuple(dict.fromkeys(metrics)),
            gpus=next(iter(found["gpus"]), 0),
        )


_NO_MARKER = Marker()


def _limits(value: Any, where: str = "") -> tuple[Limit, ...]:
    """Read limits in any accepted form: a dictionary, a list of texts, or one text."""
    for name, bound in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(name, str) or not isinstance(bound, str):
            raise GpuperfError(
                f"the limit of {show_repr(name)} is {show_repr(bound)} {where}".rstrip(),
                expected="a comparison in quotes, such as '>= 60'",
            )
    try:
        texts = value if isinstance(value, str | Mapping) else tuple(value)
    except Exception:  # a stranger's `__iter__`
        texts = (value,)
    for text in texts:
        if not isinstance(text, str):
            raise GpuperfError(
                f"a limit is given as {show_repr(text)} {where}".rstrip(),
                expected="a dictionary or a list of texts, such as 'memory_throughput >= 60'",
            )
    try:
        return parse_limits(texts)
    except GpuperfError as error:
        raise GpuperfError(f"{error.found} {where}".rstrip(), expected=error.expected) from None


def _preset(value: object, where: str) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    expected = "names of presets: 'sol,stalls'"
    return check_presets(checked("preset", parts, list[str], expected, where), where)


def _metrics(value: object, where: str) -> Sequence[str]:
    parts = [value] if isinstance(value, str) else value
    metrics: list[str] = checked("metrics", parts, list[str], "a name or a list of names", where)
    return metrics


def _tolerance(value: object, where: str) -> float:
    expected = f"a number of percent, above 0 and at most {MAX_TOLERANCE_PCT}"
    return float(checked("tolerance", value, Tolerance, expected, where))


MARKER_CHECKS: Mapping[str, Callable[[Any, str], Any]] = {
    "kernels": check_kernels,
    "launches": check_launches,
    "limits": _limits,
    "tolerance": _tolerance,
    "preset": _preset,
    "metrics": _metrics,
    "benchmark": lambda value, at: checked("benchmark", value, bool, "True or False", at),
    "gpus": lambda value, at: checked("gpus", value, _Gpus, f"a whole number from 1 to {MOST_GPUS}", at),
}
"""Check of each keyword of the marker."""


class ItemState(msgspec.Struct, gc=False):
    """A test while it runs."""

    nodeid: str
    marker: Marker
    path: Path = Path()
    """The file of the test."""
    plain: bool = False
    """True if it has a baseline, and no longer asks for a fixture that measures."""
    unavailable: str = ""
    """Why a required measurement, such as counters, is unavailable."""
    sanitized: SanitizerResult | None = None
    """Errors that compute-sanitizer found in the test; None if it did not run under it."""
    measurements: dict[str, Measurement] = {}
    called: bool = False
    """True once the test has called a method that measures."""
    ended: bool = False
    """True once it has returned, or raised: calls of fixtures that follow are refused."""
    limits: list[Limit] = []
    """Added by `gpuperf.limit()`, or by `limits=` of a call."""
    tolerance_pct: float | None = None
    """Accepted slowdown that a call states."""
    began: float = msgspec.field(default_factory=time.perf_counter)
    """Begin of its set-up, by `time.perf_counter`."""
    errors: list[str] = []
    """Errors that the user must fix before the test can be judged."""
    release: Callable[[], object] = lambda: None
    """Frees the tensors that the fixture keeps of checks, once the test has returned."""

    @property
    def stated_limits(self) -> tuple[Limit, ...]:
        """Limits of the marker and of `gpuperf.limit()`, each once."""
        return tuple(dict.fromkeys((*self.marker.limits, *self.limits)))

    @property
    def stated_tolerance_pct(self) -> float:
        """Accepted slowdown of a call or the marker, in percent; 0 if neither states one."""
        return self.tolerance_pct or self.marker.tolerance_pct or 0.0

    def state_limits(self, limits: Mapping[str, str] | Iterable[str] | str, label: str = "") -> None:
        """Add limits.

        Args:
            limits: In any form that the marker takes.
            label: Measurement that they are for; empty for all of the test.

        Raises:
            GpuperfError: One of them cannot be read.
        """
        found = _limits(limits)
        for limit in found:
            if limit.doubt:
                warnings.warn(pytest.PytestWarning(f"gpuperf: {limit.doubt}"), stacklevel=4)
        self.limits.extend(parse_limit(f"{label}: {limit}") if label else limit for limit in found)

    def state_tolerance(self, value: object) -> None:
        """Set the accepted slowdown of the test; None leaves it.

        Raises:
            GpuperfError: It is not a number of percent, or another call has stated another one.
        """
        if value is None:
            return
        number = _tolerance(value, "in a call of gpuperf")
        if self.tolerance_pct not in (None, number):
            raise GpuperfError(
                f"tolerance={number:g}, and {self.tolerance_pct:g} in an earlier call",
                expected="one tolerance for each test",
            )
        self.tolerance_pct = number

    @property
    def may_run(self) -> bool:
        """False for a test with memory errors: it could harm other tests."""
        return self.sanitized is None or not (self.sanitized.count or self.sanitized.unchecked)

    @property
    def mistakes(self) -> list[str]:
        """Reasons why the test cannot be judged."""
        stated = len(self.stated_limits)
        if stated <= MOST_LIMITS:
            return self.errors
        return [*self.errors, f"the test states {stated:,} limits; expected at most {MOST_LIMITS:,}"]

    def fresh(self) -> ItemState:
        """Return the same test before it has run."""
        errors = [self.unavailable] if self.unavailable else []
        kept = self.nodeid, self.marker, self.path, self.plain, self.unavailable, self.sanitized
        return ItemState(*kept, errors=errors)


STATE = pytest.StashKey[ItemState]()
MARKED = pytest.StashKey[bool]()
"""True for a test in which the marker has an effect without a fixture of the core."""


def name_of(item: pytest.Item) -> str:
    """Return the node id of a test in all records."""
    state = item.stash.get(STATE, None)
    return item.nodeid if state is None else state.nodeid
