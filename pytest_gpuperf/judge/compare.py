"""What moved between a measurement and its baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_gpuperf import metrics as catalogue
from pytest_gpuperf.metrics import Tier
from pytest_gpuperf.records.change import Change
from pytest_gpuperf.records.trace import EXACT_FIGURES

if TYPE_CHECKING:
    from pytest_gpuperf.judge.gate import TimeComparison
    from pytest_gpuperf.records import Measurement, MetricValue, Profile
    from pytest_gpuperf.records.baseline import MeasurementBaseline

NEAR_EXACT_PCT = 0.1
"""A count of work done that moves by more is worth showing; where several sessions agree, any change is."""
NEAR_EXACT_RANGES = 3.0
"""Where several do not agree, it is so many times the range they saw that it may move, if that is more, up to
`STATE_PCT`: or each value that is accepted would let the next one stray further."""
STATE_PCT = 2.0
"""A counter that depends on clocks and caches and moves by more is worth showing."""
STATE_POINTS = 1.0
"""The same for one in per cent that is small: percentage points."""

# A baseline file rounds a count, and an exact value that is no whole number, to six digits.
_EXACT_RELATIVE = 1e-5


@dataclass(frozen=True)
class Comparison:
    """One measurement beside its baseline."""

    time: TimeComparison | None = None
    """None where one side has no time of that mode and instrument."""
    not_compared: str = ""
    """Why the times were not compared; empty where they were, or where one side has none."""
    fell_back: bool = False
    """Whether that is because the callable can no longer be captured: a regression."""
    other_source: bool = False
    """Whether that is because the baseline's instrument did not measure it."""
    counters: tuple[Change, ...] = ()
    """Counters that moved beyond their tolerance, the largest mover first."""
    worse_exact: tuple[Change, ...] = ()
    """Those of `counters` that have no tolerance and got worse: each is a regression."""
    work: tuple[Change, ...] = ()
    """Those of `counters` that count the work done, whichever way they moved, by more than a trifle."""
    counters_compared: bool = False
    """Whether any were that this run has read: those of an earlier one say nothing of the GPU now."""
    chosen_otherwise: str = ""
    """How counters and baseline are of other launches, so that none was compared; else empty."""
    read_otherwise: str = ""
    """How counters and baseline were read differently, so that only exact ones were compared; else empty."""
    kernels: str = ""
    """How the set of kernels changed; empty where it did not."""

    @property
    def slower(self) -> bool:
        """Whether the time has regressed."""
        return self.time is not None and self.time.slower

    @property
    def faster(self) -> bool:
        """Whether the time has improved."""
        return self.time is not None and self.time.faster

    @property
    def moved(self) -> bool:
        """Whether anything is beyond its tolerance; a time of another mode that was asked for is not."""
        return bool(self.slower or self.faster or self.fell_back or self.counters or self.kernels)

    @property
    def same_work(self) -> bool:
        """Whether the counters say that the GPU did what it did before."""
        return self.counters_compared and not (self.work or self.worse_exact or self.kernels)


def compare(
    measurement: Measurement, baseline: MeasurementBaseline, time: TimeComparison | None
) -> Comparison:
    """Compare a measurement with its baseline.

    Counters have three tiers: an exact one (registers, occupancy, launches) has no tolerance, nor has a count
    that was 0; a near-exact one, which counts work, is shown beyond 0.1 % where one session has read it,
    beyond the larger of that and 3 times the range, up to 2 %, where several differ, and beyond nothing where
    several agree; one that depends on the GPU's state is shown beyond 2 %, and one in per cent only beyond
    1 point too. Where the time improved or other kernels run, no exact counter is a regression: they may pay
    with registers for what they gain.

    Another tool, or other caches, give other values to all but the exact ones, which alone are compared then.
    Of other launches of the call nothing is.

    Args:
        measurement: What was measured.
        baseline: What is expected.
        time: What the gate says of the time.
    """
    not_compared, fell_back = ("", False) if time is not None else _why_not_compared(measurement, baseline)
    other_source = bool(not_compared) and not fell_back and _same_mode(measurement, baseline)
    comparison = Comparison(time, not_compared, fell_back, other_source)
    traced = _compare_trace(measurement, baseline)
    worse_traced = () if comparison.faster else tuple(change for change in traced if change.worse)
    comparison = replace(comparison, counters=traced, worse_exact=worse_traced)
    profile = measurement.profile
    if profile is None or profile.unavailable:
        return comparison
    of_others = chosen_otherwise(profile, baseline)
    if of_others:
        return replace(comparison, chosen_otherwise=of_others)
    counters: list[tuple[float, Change]] = []
    worse_exact: list[Change] = []
    work: list[Change] = []
    read_otherwise = _read_otherwise(profile, baseline)
    for name, actual in profile.combined.items():
        expected = baseline.counters.get(name)
        if expected is None or expected == actual or (read_otherwise and not is_exact(name)):
            continue
        found = _compare_counter(name, expected, actual, baseline)
        if found is None:
            continue
        movement, change, exact = found
        counters.append((movement, change))
        if is_near_exact(name) and not negligible(change):
            work.append(change)
        # What allows fewer blocks without being the limiter costs nothing: theoretical occupancy tells.
        if exact and change.worse and not name.startswith("occupancy_limit."):
            worse_exact.append(change)
    counters.sort(key=lambda entry: -entry[0])
    kernels = _compare_kernels(profile, baseline)
    return replace(
        comparison,
        counters=(*traced, *(change for _, change in counters)),
        worse_exact=worse_traced + (() if comparison.faster or kernels else tuple(worse_exact)),
        work=tuple(work),
        counters_compared=bool(profile.combined.keys() & baseline.counters.keys())
        and not (read_otherwise or profile.read_at),
        read_otherwise=read_otherwise,
        kernels=kernels,
    )


def _compare_trace(measurement: Measurement, baseline: MeasurementBaseline) -> tuple[Change, ...]:
    """Figures of the trace that are not what they were; more of any of them is worse."""
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
    """How the launches of a profile and of a baseline were chosen differently; else empty.

    Where another regex finds kernels of other names there is nothing to say here: they show as exchanged.
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
    """Whether a metric is a fact of the compiled kernel and its launch, or of what a call launches."""
    if name in EXACT_FIGURES:
        return True
    metric = catalogue.get(name)
    return metric is not None and metric.tier is Tier.EXACT


def is_near_exact(name: str) -> bool:
    """Whether a metric counts the work done."""
    metric = catalogue.get(name)
    return metric is not None and metric.tier is Tier.NEAR_EXACT


def negligible(change: Change) -> bool:
    """Whether it is too little to move a time: where sessions agree, any change of a count is shown."""
    return change.change_pct is not None and abs(change.change_pct) < NEAR_EXACT_PCT


def _same_mode(measurement: Measurement, baseline: MeasurementBaseline) -> bool:
    timing, known = measurement.timing, baseline.time
    return timing is not None and known is not None and timing.mode == known.mode


def _why_not_compared(measurement: Measurement, baseline: MeasurementBaseline) -> tuple[str, bool]:
    """Why there is no time to compare, and whether that is because a graph can no longer be captured."""
    timing, known = measurement.timing, baseline.time
    if timing is None or known is None:
        return "", False
    if timing.mode == known.mode:
        why = f" ({timing.not_recorded})" if timing.not_recorded else ""
        return f"the time is by {timing.source}{why}, the baseline's by {known.source}: not compared", False
    if timing.not_captured:
        now = f"measured {timing.mode} (cannot be captured: {timing.not_captured})"
        return f"the time could not be compared: {now}, the baseline is {known.mode}", True
    return f"the time was taken {timing.mode}, the baseline's {known.mode}: not compared", False


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
    if exact:
        if abs(difference) <= _EXACT_RELATIVE * abs(expected):
            return None
    elif tier is Tier.NEAR_EXACT:
        # From none at all to some is a change of kind: a kernel that spills now.
        exact = not expected and name not in baseline.counters_range
        if abs(difference) <= _near_exact_tolerance(name, abs(expected), baseline):
            return None
    else:
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
    """By how much a count of work may move, in its own unit."""
    if baseline.counters_sessions > 1 and name not in baseline.counters_range:
        return _EXACT_RELATIVE * expected
    least, most = baseline.counters_range.get(name, (0.0, 0.0))
    seen = NEAR_EXACT_RANGES * abs(most - least)
    # Of a count that was 0 there is no share.
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
    """Names of the kernels of a profile, each once, in the order of their first launch."""
    return tuple(dict.fromkeys(kernel.name for kernel in profile.kernels))
