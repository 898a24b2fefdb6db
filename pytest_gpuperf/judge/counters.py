"""Counters, kernels, trace and memory of a measurement compared with its baseline."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf import metrics as catalogue
from pytest_gpuperf.judge.result import Finding, Status
from pytest_gpuperf.metrics import Tier
from pytest_gpuperf.metrics.change_units import in_units
from pytest_gpuperf.metrics.presets import DEFAULT, metrics_of
from pytest_gpuperf.records.change import Change, show_pair
from pytest_gpuperf.records.run import COUNTERS_OFF, show_selection
from pytest_gpuperf.records.value_names import EXACT_VALUES, VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_gpuperf.records import Measurement, MetricValue, Profile
    from pytest_gpuperf.records.baseline import MeasurementBaseline

TOLERANCE_PCT: Mapping[Tier, float] = {Tier.EXACT: 1e-3, Tier.NEAR_EXACT: 0.1, Tier.STATE: 2.0}
"""Tolerance by tier. A baseline file rounds exact values to six digits; counts of work of one code differ by
at most 0.09 % between the sessions in `baselines/`."""
STATE_POINTS = 1.0
"""Second tolerance of a counter in % that depends on the GPU's state: percentage points."""
READ_ALIKE = frozenset({"achieved_occupancy", "tensor_active"})
"""Counters that depend on the GPU's state, on which ncu and CUPTI agree within these tolerances for each
kernel of `benchmarks/results/counter_agreement.json`. They agree on exact ones and counts of work, too."""
LEAVE_OUT = "allow counters, or leave them out of a run with --gpuperf-counters=off"
LEFT_OUT = "those on which the two disagree are not compared"
SHOWN_CHANGES = 4
"""Maximum number of changed counters below a finding; reports show the rest."""


class CounterComparison(msgspec.Struct, frozen=True, gc=False):
    """Counters, kernels and trace of a measurement compared with its baseline."""

    changes: tuple[Change, ...] = ()
    """Values that moved beyond their tolerance: first those of the whole call, then the largest mover."""
    worse_exact: tuple[Change, ...] = ()
    """Changes for the worse that have no tolerance: each is a regression unless the time improved."""
    kernels: str = ""
    """Kernels that are new or gone; empty if none is."""
    remarks: tuple[Finding, ...] = ()
    """Counters that were not measured or not compared, and why: `invalid` if the test dropped them."""

    @property
    def details(self) -> tuple[str, ...]:
        """A line for the kernels, and one for each of the largest changes."""
        return (*filter(None, [self.kernels]), *map(in_units, self.changes[:SHOWN_CHANGES]))


def compare_counters(measurement: Measurement, baseline: MeasurementBaseline) -> CounterComparison:
    """Compare the counters, kernels and trace of a measurement with its baseline.

    Counters have three tiers, each with its tolerance. An exact one (registers, occupancy, launches) fails if
    it is worse, and so does a count of work (instructions) that was 0. If other kernels run, none fails: they
    may pay for speed with registers.

    Another tool, or other caches, change counters that depend on the GPU's state, so of these only
    `READ_ALIKE` are compared then. If the test chose other launches or fewer counters, it has to be accepted.
    """
    of_call = _moved(baseline.exact, measurement.exact)
    worse = [change for change in of_call if change.worse]
    profile, known, remarks = measurement.profile, baseline.counters, [*_unmeasured(measurement, baseline)]
    if profile is None or not known or profile.unavailable.startswith(COUNTERS_OFF):
        return CounterComparison(tuple(of_call), tuple(worse), remarks=tuple(remarks))
    if (lost := _lost(profile, baseline)) is not None:
        return CounterComparison(tuple(of_call), tuple(worse), remarks=(*remarks, lost))
    if profile.read_by != baseline.counters_by:
        read = f"counters were read by {profile.read_by}, the baseline's by {baseline.counters_by}"
        remarks.append(Finding(Status.PASS, f"{read}: {LEFT_OUT}"))
        known = {name: value for name, value in known.items() if is_read_alike(name)}
    changes = _moved(known, profile.combined)
    kernels = _compare_kernels(profile, baseline)
    worse += [] if kernels else filter(_is_worse_exact, changes)
    return CounterComparison((*of_call, *changes), tuple(worse), kernels, tuple(remarks))


def counter_findings(compared: CounterComparison) -> Iterator[Finding]:
    """Judge counters whose time neither regressed nor improved.

    Else the finding of the time shows them, and exact ones may have paid for a better time.
    """
    if compared.kernels:
        line = "other kernels run, so exact counters are not judged"
        yield Finding(Status.PASS, line, details=compared.details)
    if compared.worse_exact:
        first, *others = compared.worse_exact
        actual, expected = show_pair(first.actual, first.baseline)
        more = f", and {len(others)} more" if others else ""
        line = f"{first.metric} {actual} is worse than the baseline {expected} (no tolerance){more}"
        shown = in_units(first)
        yield Finding(Status.REGRESSED, line, details=tuple(one for one in compared.details if one != shown))


def early_warning(compared: CounterComparison) -> Iterator[Finding]:
    """Remark on the largest growth of work at a time that passes."""
    more_work = (one for one in compared.changes if one.worse and tier_of(one.metric) is Tier.NEAR_EXACT)
    for largest in islice(more_work, 1):
        yield Finding(Status.PASS, f"{largest} at the same time: an early warning")


def _lost(profile: Profile, baseline: MeasurementBaseline) -> Finding | None:
    """Return a finding if the machine measured no counters, or the test those of other launches.

    If a test no longer chooses kernels, others than those of the baseline show as new ones instead.
    """
    if profile.unavailable:
        line = f"counters of the baseline were not measured: {profile.unavailable}"
        return Finding(Status.INCONCLUSIVE, line, next_step=LEAVE_OUT)
    now, then = (profile.launches or "all", profile.regex), (baseline.launches, baseline.regex)
    # As many launches as those chosen then: they are all.
    are_all = now[0] == "all" and profile.combined.get("kernels") == baseline.counters.get("kernels", 0)
    exchanged = now == (then[0], "") and (are_all or _compare_kernels(profile, baseline))
    if not baseline.launches or now == then or exchanged:
        return None
    shown, before = (show_selection(regex, launches) for launches, regex in (now, then))
    return Finding(Status.INVALID, f"counters are of {shown}, the baseline's of {before}")


def _unmeasured(measurement: Measurement, baseline: MeasurementBaseline) -> Iterator[Finding]:
    """Name the values of a baseline that a part lacks now: a test that no longer asks for counters fails."""
    profile, now, before = measurement.profile, measurement.accuracy, baseline.accuracy
    absent = (name for name in baseline.exact if name not in measurement.exact)
    lost = [name for name in absent if getattr(measurement, VALUES[name].part) is not None]
    if now is not None and before is not None:
        gone = before.by_output.keys() - now.by_output.keys()
        lost += [f"accuracy of {name or 'the output'}" for name in sorted(gone)]
    status = Status.PASS
    combined = profile.combined if profile is not None and not profile.unavailable else baseline.counters
    if profile is not None and (dropped := baseline.counters.keys() - combined.keys()):
        asked = {*metrics_of((profile.preset or DEFAULT).split(","))}
        if profile.read_by != baseline.counters_by:
            # Another reader lacks some that it is asked for: CUPTI has no `occupancy_limit.barriers`.
            dropped = {name for name in dropped - asked if is_read_alike(name)}
        lost += sorted(dropped)
        # One that is asked for may have no value: a kernel that stores by TMA has no sectors of plain stores.
        status = Status.INVALID if dropped - asked else Status.PASS
    if lost:
        names = ", ".join([*lost[:SHOWN_CHANGES], "…"][: len(lost)])
        yield Finding(status, f"of the baseline, not measured by this test: {names}", doubt=True)


def other_compiler(now: Measurement, known: MeasurementBaseline) -> str:
    """Say that a kernel is of another compiler than its baseline, so another kernel; else empty."""
    before = known.counters.get("compiler")
    compiler = now.profile.combined.get("compiler") if now.profile is not None else None
    if not before or not compiler or before == compiler:
        return ""
    return f"compiled by {compiler}, the baseline by {before}: another kernel, not compared"


def distinct_kernels(profile: Profile) -> tuple[str, ...]:
    """Return the names of the kernels of a profile, each once, in the order of their first launch."""
    return tuple(dict.fromkeys(kernel.name for kernel in profile.kernels))


def is_read_alike(name: str) -> bool:
    """Return True if ncu and CUPTI read the same value of a metric."""
    return name in READ_ALIKE or tier_of(name) is not Tier.STATE


def tier_of(name: str) -> Tier:
    """Return the tier of a metric: facts of a whole call are exact, unknown metrics depend on the state."""
    metric = catalogue.get(name)
    if name in EXACT_VALUES:
        return Tier.EXACT
    return Tier.STATE if metric is None else metric.tier


def _moved(known: Mapping[str, MetricValue], now: Mapping[str, MetricValue]) -> list[Change]:
    """Return the values that moved beyond their tolerance, the largest mover first."""
    moved = [
        found
        for name, actual in now.items()
        if name in known and known[name] != actual and (found := _movement(name, known[name], actual))
    ]
    return [change for _, change in sorted(moved, key=lambda pair: -pair[0])]


def _movement(name: str, expected: MetricValue, actual: MetricValue) -> tuple[float, Change] | None:
    """Return how far a value moved, and its change; None within its tolerance."""
    if isinstance(expected, str) or isinstance(actual, str):
        return math.inf, Change(name, expected, actual, None, worse=None)
    metric = catalogue.get(name)
    difference = actual - expected
    relative = 100 * difference / abs(expected) if expected else None
    movement = math.inf if relative is None else abs(relative)
    if movement <= (0.0 if name in EXACT_VALUES else TOLERANCE_PCT[tier_of(name)]):
        return None
    if metric is not None and metric.tier is Tier.STATE and metric.unit == "%":
        movement = abs(difference)
        if movement <= STATE_POINTS:
            return None
    better = VALUES[name].better if name in EXACT_VALUES else metric.better if metric is not None else ""
    worse = difference > 0 if better == "lower" else difference < 0 if better == "higher" else None
    return movement, Change(name, expected, actual, relative, worse)


def _is_worse_exact(change: Change) -> bool:
    # Fewer blocks by a resource that is not the limiter cost nothing: theoretical occupancy tells.
    if not change.worse or change.metric.startswith("occupancy_limit."):
        return False
    # From 0 to more is a change of kind: a kernel that spills now.
    tier = tier_of(change.metric)
    return tier is Tier.EXACT or (tier is Tier.NEAR_EXACT and not change.baseline)


def _compare_kernels(profile: Profile, baseline: MeasurementBaseline) -> str:
    actual = distinct_kernels(profile) if baseline.kernels else ()
    added = ", ".join(name for name in actual if name not in baseline.kernels)
    gone = ", ".join(name for name in baseline.kernels if name not in actual)
    lines = (f"now runs {added}" if added else "", f"no longer runs {gone}" if gone else "")
    return "; ".join(filter(None, lines))
