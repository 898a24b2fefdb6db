"""Effect of accepting one measurement: the new baseline, and lines of text about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec.structs import replace

from pytest_gpuperf.baseline.rounding import TIME_DIGITS, round_counter, round_to_digits, stored_accuracy
from pytest_gpuperf.baseline.sessions import merged_time
from pytest_gpuperf.judge.accuracy import paired_outputs, worse_figures
from pytest_gpuperf.judge.counters import (
    SHOWN_CHANGES,
    compare_counters,
    distinct_kernels,
)
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.judge.settled_suspects import STORED_OFF
from pytest_gpuperf.judge.times import judge_time, other_call
from pytest_gpuperf.records.baseline import MeasurementBaseline, same_quantity
from pytest_gpuperf.records.change import Change, show_value
from pytest_gpuperf.records.run import STATIC_SOURCE
from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_gpuperf.judge.result import TimeComparison
    from pytest_gpuperf.judge.times import Origin
    from pytest_gpuperf.records import Measurement, Timing
    from pytest_gpuperf.records.baseline import TimeBaseline

Which: TypeAlias = Literal["new", "changed", "all"]
"""`new`: values without a baseline, even if only the time or the counters of a test; `changed`: also values
that moved beyond their tolerance; `all`: everything."""
Kind: TypeAlias = Literal["new", "changed", "refreshed", "refused"]
"""`refreshed`: moved within the tolerance only."""
OF_PART: Mapping[str, tuple[str, ...]] = {
    "time": ("time", "code", "call"),
    "counters": ("kernels", "counters", "counters_run", "counters_by", "launches", "regex"),
    "trace": ("trace",),
    "accuracy": ("accuracy",),
}
"""Fields of a baseline by the part of a measurement that they are from."""


@dataclass(frozen=True)
class Effect:
    """Effect of an update on one measurement of one test."""

    nodeid: str
    label: str
    """Empty for the whole test."""
    kind: Kind
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Accepted:
    """The run that is accepted, as far as one measurement needs to know."""

    run: str
    """Its id."""
    origin: Origin
    card: str
    """UUID of the card of the test, if it is another one than the run's."""
    same_code: frozenset[str]
    """Ids of the runs of the same code."""
    tolerance_pct: float


def update(
    measurement: Measurement, stored: MeasurementBaseline, accepted: Accepted, which: Which
) -> tuple[Kind, list[str], MeasurementBaseline] | None:
    """Return the effect of accepting a measurement, its lines, and its new baseline; None if not wanted."""
    measurement = _comparable(measurement, stored)
    only_new = _only_new(measurement, stored)
    measurement = only_new if which == "new" else measurement
    if not measurement.has_values:
        return None
    time, finding = judge_time(measurement, stored, accepted.origin, accepted.tolerance_pct)
    counters = compare_counters(measurement, stored)
    errors = _moved_errors(measurement, stored)
    new = replace(stored, **_counters(measurement, accepted.run))
    if measurement.trace is not None:
        new = replace(new, trace=measurement.trace.exact)
    if (accuracy := measurement.accuracy) is not None:
        new = replace(new, accuracy=stored_accuracy(accuracy))
    lines: list[str] = []
    why = _why_replaced(measurement, stored, time, accepted)
    if (timing := measurement.timing) is not None:
        runs = accepted.origin.runs
        merged = merged_time(stored.time, accepted.run, timing, runs, accepted.card, replaces=bool(why))
        new = replace(new, time=merged, code=measurement.code, call=measurement.call)
        lines += _time_lines(time, timing, stored.time, merged, why)
    lines += counters.details
    if (more := len(counters.changes) - SHOWN_CHANGES) > 0:
        lines.append(f"{more} more counters moved")
    lines += [*(remark.line for remark in counters.remarks), *errors]
    if added := _added(measurement, stored):
        lines.append(("new: " if stored != MeasurementBaseline() else "") + ", ".join(added))
    moved = finding is not None and finding.status is not Status.PASS
    dropped = any(remark.doubt or remark.status.fails for remark in counters.remarks)
    kind: Kind = "refreshed"
    if moved or why or dropped or counters.changes or counters.kernels or errors:
        kind = "changed"
    elif only_new.has_values or added:
        kind = "new" if only_new.has_values else "changed"
    return (kind, lines, new) if which == "all" or kind in ("new", which) else None


def _comparable(measurement: Measurement, stored: MeasurementBaseline) -> Measurement:
    """Take the time by the source of the baseline, as a run may have both; and only code that is known."""
    timing, code, settlement = measurement.timing, measurement.code, measurement.settlement
    if timing is not None and stored.time is not None:
        timing = timing.by(stored.time.source) or timing
    if code is not None and not code.kernels:
        code = None
    if settlement is not None and settlement.names_code:
        settlement = None
    return replace(measurement, timing=timing, code=code, settlement=settlement)


def _only_new(measurement: Measurement, stored: MeasurementBaseline) -> Measurement:
    """Leave out the parts that the baseline can judge, so that accepting the rest hides no regression."""
    return replace(
        measurement,
        timing=None if stored.time else measurement.timing,
        profile=None if stored.counters else measurement.profile,
        trace=None if stored.trace else measurement.trace,
        correctness=None if stored.accuracy else measurement.correctness,
    )


def _why_replaced(
    measurement: Measurement, stored: MeasurementBaseline, time: TimeComparison | None, accepted: Accepted
) -> str:
    """Return why the stored sessions go: the time moved, or is another quantity; empty if they stay."""
    known, timing = stored.time, measurement.timing
    if known is None or timing is None:
        return ""
    if not same_quantity(timing, known):
        return f"they were taken {known.mode} by {known.source}"
    if other_call(measurement, stored):
        return "they are of another call"
    # If a run of the same code is stored, that is the code of the sessions.
    same_code = not accepted.same_code.isdisjoint(session.run for session in known.sessions)
    if same_code or time is None or (time.outcome is Outcome.PASS and STORED_OFF not in time.why):
        return ""
    return "the time moved"


def _counters(measurement: Measurement, run: str) -> dict[str, Any]:
    profile = measurement.profile
    if profile is None or not profile.combined:
        return {}
    counters = {
        name: round_counter(name, value)
        for name, value in profile.combined.items()
        if isinstance(value, str) or math.isfinite(value)
    }
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


def _added(measurement: Measurement, stored: MeasurementBaseline) -> list[str]:
    """Return the parts that the baseline has not, and counters that it has not."""
    timing, profile = measurement.timing, measurement.profile
    shown = f"time {show_value(timing.time_us)} µs ({timing.mode})" if timing is not None else ""
    parts = {
        shown: timing is not None and stored.time is None,
        "trace": measurement.trace is not None and not stored.trace,
        "accuracy": measurement.accuracy is not None and stored.accuracy is None,
        "counters": measurement.has_counters and not stored.counters,
    }
    added = [name for name, is_new in parts.items() if is_new]
    if profile is not None and stored.counters:
        added += sorted(profile.combined.keys() - stored.counters.keys())
    return added


def _moved_errors(measurement: Measurement, stored: MeasurementBaseline) -> list[str]:
    """Return the errors of the outputs that moved beyond their tolerance, in either direction."""
    now, before = measurement.accuracy, stored.accuracy
    lines: list[str] = []
    for one, known in paired_outputs(now, before) if now is not None and before is not None else ():
        if one.kind != known.kind:
            return ["the accuracy is of other types"]
        of = f" of {one.output}" if now is not None and now.others else ""
        lines += [
            str(Change(f"{name}{of}", getattr(known, name), getattr(one, name), None, worse=None))
            for name in worse_figures(one, known) | worse_figures(known, one)
        ]
    return lines


def _time_lines(
    time: TimeComparison | None, timing: Timing, known: TimeBaseline | None, merged: TimeBaseline, why: str
) -> Iterator[str]:
    """Say `time_us 5.30 -> 5.84 (+10.2 %)`, as the verdict does, and `sessions 3 -> 1 (why)` if they move."""
    if known is None:
        return
    values_us, change_pct = (known.mean_us, timing.time_us), None
    if time is not None:
        values_us, change_pct = (time.baseline_us, time.actual_us), time.decision.change_pct
    before_us, after_us = (round_to_digits(value_us, TIME_DIGITS) for value_us in values_us)
    yield str(Change("time_us", before_us, after_us, change_pct, worse=None))
    before, after = ([session.run for session in time.sessions] for time in (known, merged))
    if before != after:
        yield f"sessions {len(before)} -> {len(after)}" + (f" ({why})" if why else "")
