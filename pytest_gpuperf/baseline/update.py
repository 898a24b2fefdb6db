"""Effect of accepting one measurement: the new baseline, and lines of text about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec.structs import replace

from pytest_gpuperf.baseline.rounding import round_counter, stored_accuracy
from pytest_gpuperf.baseline.sessions import describe_sessions, merged_time
from pytest_gpuperf.judge.accuracy import is_comparable, paired_outputs, worse_figures
from pytest_gpuperf.judge.counters import chosen_otherwise, compare_counters, distinct_kernels
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.judge.times import judge_time
from pytest_gpuperf.records.baseline import MeasurementBaseline, same_quantity
from pytest_gpuperf.records.change import show_pair, show_signed, show_value
from pytest_gpuperf.records.counters import STATIC_SOURCE
from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.judge.origin import Origin
    from pytest_gpuperf.judge.screen import TimeComparison
    from pytest_gpuperf.records import Measurement, Timing
    from pytest_gpuperf.records.baseline import TimeBaseline

Which: TypeAlias = Literal["new", "changed", "all"]
"""`new`: values without a baseline, even if only the time or the counters of a test; `changed`: also values
that moved beyond their tolerance; `all`: everything."""
Kind: TypeAlias = Literal["new", "changed", "refreshed", "refused"]
"""`refreshed`: moved within the tolerance only."""
TAKES: Mapping[Which, tuple[Kind, ...]] = {
    "new": ("new",),
    "changed": ("new", "changed"),
    "all": ("new", "changed", "refreshed"),
}
OF_PART: Mapping[str, tuple[str, ...]] = {
    "time": ("time", "code", "call"),
    "counters": ("kernels", "counters", "counters_run", "counters_by", "launches", "regex"),
    "trace": ("trace",),
    "accuracy": ("accuracy",),
}
"""Fields of a baseline by the part of a measurement that they are from."""


@dataclass(frozen=True)
class Entry:
    """Effect of an update on one measurement of one test."""

    nodeid: str
    label: str
    """Empty for the whole test."""
    kind: Kind
    lines: tuple[str, ...]
    sessions: str = ""
    """Change of the sessions of its time, if it is not new; also one of `lines`."""


@dataclass(frozen=True)
class Accepted:
    """The run that is accepted, as far as one measurement needs to know."""

    run: str
    """Its id."""
    origin: Origin
    dates: Mapping[str, str]
    """The start of each run, by run id."""
    card: str
    """UUID of the card of the test, if it is another one than the run's."""
    same_code: frozenset[str]
    """Ids of the runs of the same code."""
    tolerance_pct: float


def why_refused(measurement: Measurement, known: MeasurementBaseline | None, accepted: Accepted) -> str:
    """Return why a measurement cannot become a baseline; empty if it can, or has nothing to compare."""
    if not measurement.has_values:
        return "neither a time nor counters were measured" if measurement.profile is not None else ""
    time = known.time if known is not None else None
    timing = measurement.timing
    if timing is None or time is None or accepted.same_code.isdisjoint(one.run for one in time.sessions):
        return ""
    timing = timing.by(time.source) or timing
    if same_quantity(timing, time):
        return ""
    return f"the time was taken {timing.mode} by {timing.source}, not {time.mode} by {time.source}"


def update(
    nodeid: str,
    label: str,
    measurement: Measurement,
    known: MeasurementBaseline | None,
    accepted: Accepted,
    which: Which,
) -> tuple[Entry, MeasurementBaseline] | None:
    """Return the effect of accepting a measurement, and its new baseline; None if that is not wanted.

    Args:
        nodeid: The test.
        label: Name of the measurement.
        measurement: The new values.
        known: The values of the baseline; None if it has none.
        accepted: The run.
        which: The values to accept.
    """
    stored = known or MeasurementBaseline()
    measurement = _comparable(measurement, stored)
    if which == "new":
        measurement = _only_new(measurement, stored)
    if not measurement.has_values:
        return None
    compared, finding = judge_time(measurement, stored, accepted.origin, accepted.tolerance_pct)
    is_lost = finding is not None and finding.status is Status.REGRESSED
    moved = compared if compared is not None and compared.outcome is not Outcome.PASS else None
    new = replace(stored, **_counters(measurement, stored, accepted.run))
    if measurement.trace is not None:
        new = replace(new, trace=measurement.trace.exact)
    if (accuracy := measurement.accuracy) is not None:
        new = replace(new, accuracy=stored_accuracy(accuracy))
    sessions = ""
    if (timing := measurement.timing) is not None:
        why = _why_replaced(measurement, stored, moved, accepted)
        time = merged_time(
            stored.time, accepted.run, timing, accepted.dates, accepted.card, replaces=bool(why)
        )
        sessions = describe_sessions(stored.time, time, accepted.run, why)
        new = replace(new, time=time, code=measurement.code, call=measurement.call)
    if known is None:
        return Entry(nodeid, label, "new", (_new_value(measurement),)), new
    kind, lines = _effect(measurement, stored, sessions, moved=is_lost or moved is not None)
    entry = Entry(nodeid, label, kind, tuple(lines), sessions)
    return (entry, new) if kind in TAKES[which] else None


def _comparable(measurement: Measurement, stored: MeasurementBaseline) -> Measurement:
    """Take the time by the source of the baseline, as a run may have both; and only code that is known."""
    timing, code, settlement = measurement.timing, measurement.code, measurement.settlement
    if timing is not None and stored.time is not None:
        timing = timing.by(stored.time.source) or timing
    if code is not None and not code.kernels:
        code = None
    # One against a commit that the user named tells nothing of the baseline.
    if settlement is not None and not settlement.sessions:
        settlement = None
    return replace(measurement, timing=timing, code=code, settlement=settlement)


def _only_new(measurement: Measurement, stored: MeasurementBaseline) -> Measurement:
    """Leave out the parts that the baseline can judge, so that accepting the rest hides no regression."""
    timing, profile, time = measurement.timing, measurement.profile, stored.time
    judged = (
        timing is not None and time is not None and (same_quantity(timing, time) or _is_lost(timing, time))
    )
    others = profile is not None and measurement.has_counters and chosen_otherwise(profile, stored)
    return replace(
        measurement,
        timing=None if judged else timing,
        profile=None if stored.counters and not others else profile,
        trace=None if stored.trace else measurement.trace,
        correctness=None if stored.accuracy else measurement.correctness,
    )


def _is_lost(timing: Timing, known: TimeBaseline) -> bool:
    """Return True if a time fell back to another mode: the quantity of the baseline is lost, not replaced."""
    return bool(timing.not_captured) and (known.mode in ("hot", "cold") or bool(timing.not_recorded))


def _why_replaced(
    measurement: Measurement, stored: MeasurementBaseline, moved: TimeComparison | None, accepted: Accepted
) -> str:
    """Return why the stored sessions go: the time moved, or is another quantity; empty if they stay."""
    known, timing = stored.time, measurement.timing
    if known is None or timing is None:
        return ""
    if not same_quantity(timing, known):
        return f"they were taken {known.mode} by {known.source}"
    if _is_other_call(measurement, stored):
        return "they are of another call"
    # If a run of the same code is stored, that is the code of the sessions.
    if not accepted.same_code.isdisjoint(session.run for session in known.sessions):
        return ""
    return f"time moved {show_signed(moved.decision.change_pct)} %" if moved is not None else ""


def _is_other_call(measurement: Measurement, stored: MeasurementBaseline) -> bool:
    now, before = measurement.call, stored.call
    return now is not None and before is not None and bool(now.difference(before))


def _counters(measurement: Measurement, stored: MeasurementBaseline, run: str) -> dict[str, Any]:
    profile = measurement.profile
    if profile is None or not profile.combined:
        return {}
    counters = {
        name: round_counter(name, value)
        for name, value in profile.combined.items()
        if isinstance(value, str) or math.isfinite(value)
    }
    if profile.preset and not chosen_otherwise(profile, stored):
        # Only some were requested; the others stay.
        counters = {**stored.counters, **counters}
    # A compiler reports all kernels.
    launches = "" if profile.source == STATIC_SOURCE else profile.launches or "all"
    return {
        "kernels": distinct_kernels(profile),
        "counters": counters,
        "counters_run": run,
        "counters_by": profile.read_by,
        "launches": launches,
        "regex": profile.regex if launches else "",
    }


def _new_value(measurement: Measurement) -> str:
    if (timing := measurement.timing) is not None:
        return f"time {show_value(timing.time_us)} µs ({timing.mode})"
    if measurement.has_counters:
        return "counters"
    return "trace" if measurement.trace is not None else "accuracy"


def _effect(
    measurement: Measurement, stored: MeasurementBaseline, sessions: str, *, moved: bool
) -> tuple[Kind, list[str]]:
    """Return the kind of an update of a baseline, and lines about it."""
    counters = compare_counters(measurement, stored)
    accuracy, accuracy_moved = _accuracy_change(measurement, stored)
    added = _added(measurement, stored)
    lines = [_time_line(measurement.timing, stored.time), sessions, *map(str, counters.changes)]
    lines += [counters.kernels, counters.chosen_otherwise, counters.read_otherwise, accuracy]
    lines.append(f"new: {', '.join(added)}" if added else "")
    kind: Kind = "changed" if added else "refreshed"
    if moved or counters.changes or counters.kernels or accuracy_moved or _is_other_call(measurement, stored):
        kind = "changed"
    elif _only_new(measurement, stored).has_values:
        kind = "new"
    return kind, list(filter(None, lines))


def _added(measurement: Measurement, stored: MeasurementBaseline) -> list[str]:
    parts = {
        "time": measurement.timing is not None and stored.time is None,
        "trace": measurement.trace is not None and not stored.trace,
        "accuracy": measurement.accuracy is not None and stored.accuracy is None,
        "counters": measurement.has_counters and not stored.counters,
    }
    added = [name for name, is_new in parts.items() if is_new]
    if measurement.profile is not None and stored.counters:
        added += sorted(measurement.profile.combined.keys() - stored.counters.keys())
    return added


def _accuracy_change(measurement: Measurement, stored: MeasurementBaseline) -> tuple[str, bool]:
    """Return the change of the errors, and True if one moved beyond its tolerance; empty if none changed."""
    now, before = measurement.accuracy, stored.accuracy
    if now is None or before is None:
        return "", False
    changed: list[str] = []
    moved = False
    for one, known in paired_outputs(now, before):
        if not is_comparable(one, known):
            if one.kind != known.kind:
                return "the accuracy is of other types", True
            continue
        of = f" of {one.output}" if now.others else ""
        pairs = [(name, show_value(old), one.values.get(name)) for name, old in known.values.items()]
        changed += [
            f"{name}{of} {old} -> {show_value(new)}"
            for name, old, new in pairs
            if new is not None and show_value(new) != old
        ]
        moved = moved or bool(worse_figures(one, known) or worse_figures(known, one))
    return ", ".join(changed), moved


def _time_line(timing: Timing | None, known: TimeBaseline | None) -> str:
    if timing is None or known is None:
        return ""
    before, after = show_pair(known.mean_us, timing.time_us)
    if timing.mode != known.mode:
        return f"time {before} µs ({known.mode}) -> {after} µs ({timing.mode})"
    if timing.source != known.source:
        return f"time {before} µs (by {known.source}) -> {after} µs (by {timing.source})"
    change_pct = 100 * (timing.time_us / known.mean_us - 1)
    return f"time {before} -> {after} µs ({show_signed(change_pct)} %)"
