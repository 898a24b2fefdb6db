"""Judgement of a time next to its baseline: by the screen, old and new code in turn, or fresh processes."""

from __future__ import annotations

import math
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from pytest_gpuperf.judge.code_changes import is_same_code
from pytest_gpuperf.judge.result import Finding, Status
from pytest_gpuperf.judge.screen import TimeComparison, screen
from pytest_gpuperf.records.change import show_pair
from pytest_gpuperf.statistics.decision import Decision, Outcome, as_pct
from pytest_gpuperf.statistics.sequential import decide_restarts
from pytest_gpuperf.statistics.thresholds import ALIKE_PCT, FRESH, LARGE_PCT, MACHINE_PCT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gpuperf.judge.screen import Origin
    from pytest_gpuperf.records import (
        AgainstTiming,
        Measurement,
        Settlement,
        Timing,
        TimingMode,
    )
    from pytest_gpuperf.records.baseline import MeasurementBaseline, TimeBaseline

BY_SESSIONS = "without --gpuperf-against the stored sessions decide"
AGAIN = "time it again while nothing else uses the GPU"
NOT_SETTLED = "not settled"
"""Why a suspect stays undecided, if nothing else is known."""
STORED_OFF = "the stored session is off"
_REPLICATES = {"screen": "stored session", "in turn": "restart", "fresh": "fresh process"}


def judge_time(
    measurement: Measurement,
    baseline: MeasurementBaseline,
    origin: Origin,
    tolerance_pct: float,
) -> tuple[TimeComparison | None, Finding | None]:
    """Judge a time by the old code that the user named, or else by the screen and the settlement.

    Returns:
        The comparison with the outcome, None if it was compared with nothing; and what there is to say of it.
    """
    settlement, timing, known = measurement.settlement, measurement.timing, baseline.time
    against = settlement.against if settlement is not None else None
    time, drift = None, ""
    if timing is None:
        return None, None
    if settlement is not None and not settlement.sessions:
        time = compare_restarts(against, tolerance_pct)
        if time is None:
            line = (
                f"not compared with {against.ref if against is not None else 'old code'}: {settlement.reason}"
            )
            if known is None:
                return None, Finding(Status.NEW, line)
            return None, Finding(Status.INCONCLUSIVE, line, next_step=BY_SESSIONS)
    elif known is not None:
        time = screen(timing, known, origin, tolerance_pct)
        if time is None:
            return None, _not_compared(timing, known, origin)
        if other := other_call(measurement, baseline):
            return None, Finding(Status.INCONCLUSIVE, f"another call than the baseline's: {other}")
        if time.outcome is not Outcome.PASS:
            sides = (measurement.code, settlement.against.code if settlement and settlement.against else None)
            same = any(is_same_code(code, baseline.code) for code in sides)
            time, drift = _settled(time, settlement, known, same, origin, tolerance_pct)
    if time is None or (time.outcome is Outcome.PASS and not time.why):
        return time, None
    noisy = time.too_noisy and time.outcome is Outcome.INCONCLUSIVE
    step = AGAIN if noisy else ""
    return time, Finding(
        Status(time.outcome.value), time_line(time, timing.mode), drift=drift, next_step=step
    )


def other_call(measurement: Measurement, baseline: MeasurementBaseline) -> str:
    """Return how a call differs from that of the baseline; empty if it does not, or one is not known."""
    now, before = measurement.call, baseline.call
    return now.difference(before) if now is not None and before is not None else ""


def _settled(
    time: TimeComparison,
    settlement: Settlement | None,
    known: TimeBaseline,
    is_same: bool,
    origin: Origin,
    tolerance_pct: float,
) -> tuple[TimeComparison, str]:
    """Judge a time outside the screen by its settlement, unless that is of other sessions.

    Returns:
        The comparison that decides, and the other causes that moved the time: `driver 580 -> 590`; empty if
        nothing did.
    """
    if settlement is None or not {one.run for one in known.sessions}.issuperset(settlement.sessions):
        return replace(time, why=(NOT_SETTLED,), suspect=True), ""
    packages, machine = map(", ".join, origin.differences(known.sessions))
    # By the host's clock, another machine's time may be anything.
    on_other = math.inf if known.mode == "host" else MACHINE_PCT
    fresh = compare_fresh(settlement, time, tolerance_pct, on_other if machine else 0.0)
    if settlement.how == "fresh" and fresh is not None:
        return _because(fresh, f"old code could not be timed in turn: {settlement.reason}"), ""
    turn = compare_restarts(settlement.against, tolerance_pct)
    if settlement.how != "in turn" or turn is None:
        return _because(time, settlement.reason or NOT_SETTLED), ""
    tolerated = ALIKE_PCT < turn.decision.change_pct <= tolerance_pct
    if turn.decision.outcome is not Outcome.PASS or tolerated:
        return turn, ""
    alike = "old and new code are alike in turn"
    if machine and packages:
        return _because(time, alike, f"the machine and packages changed: {machine}, {packages}"), ""
    if packages:
        if fresh is None:
            return _because(time, alike, f"{packages}, and no fresh processes confirm it"), ""
        return _because(fresh, alike, f"by the toolchain: {packages}"), ""
    if time.decision.low_pct <= 0 <= time.decision.high_pct:
        return turn, ""  # only its own error made it a suspect: nothing has to be explained
    # If neither side had the machine code of the newest session, both may have what made it slower. Hashes
    # leave out copies and all that is outside of git, so they do not explain a large difference.
    if not (machine or (is_same and abs(time.decision.change_pct) <= LARGE_PCT)):
        return _because(time, alike, "nothing that is known differs from the baseline"), ""
    passed = replace(time, decision=replace(time.decision, outcome=Outcome.PASS))
    cause = machine or STORED_OFF
    return _because(passed, alike, cause), cause


def _because(time: TimeComparison, *why: str) -> TimeComparison:
    return replace(time, why=why)


def compare_restarts(against: AgainstTiming | None, tolerance_pct: float = 0.0) -> TimeComparison | None:
    """Judge a time against older code, both measured in turn on one GPU; None without restarts."""
    if against is None or not against.log_ratios:
        return None
    ratios, raw, first = against.log_ratios, against.raw_log_ratios, against.new_first
    by_host = against.mode == "host"
    decision = decide_restarts(ratios, tolerance_pct, final=True, raw=raw, new_first=first, by_host=by_host)
    # The decision is on the ratio of restarts; the mean of all blocks may differ from it a little.
    old_us = against.new_us / (1 + decision.change_pct / 100)
    at_one_clock = raw not in ((), ratios) and not decision.as_measured
    return TimeComparison(
        decision=decision,
        actual_us=against.new_us,
        baseline_us=old_us,
        at_mhz=fmean((against.new_mhz, against.old_mhz)) if at_one_clock else 0.0,
        actual_mhz=against.new_mhz,
        baseline_mhz=against.old_mhz,
        how="in turn",
        against=against.ref
        if not against.commit or against.commit.startswith(against.ref)
        else f"{against.ref} ({against.commit[:7]})",
    )


class SpeedUp(NamedTuple):
    """Time of one callable over that of another, give or take three standard errors."""

    value: float
    low: float
    high: float


def speed_up(against: AgainstTiming) -> SpeedUp | None:
    """Return the old time over the new one; None without restarts."""
    compared = compare_restarts(against)
    if compared is None:
        return None
    decision = compared.decision
    changes = (decision.change_pct, decision.high_pct, decision.low_pct)
    return SpeedUp(*(1 / (1 + change / 100) for change in changes))


def compare_fresh(
    settlement: Settlement, time: TimeComparison, tolerance_pct: float, least_pct: float = 0.0
) -> TimeComparison | None:
    """Judge the times of fresh processes by the screen: all outside on one side, or most of them inside.

    They are at the clock of `time`, the first one next to the sessions. On another machine, only changes from
    `least_pct` on count. Returns None if there are too few.
    """
    changes = sorted(as_pct(math.log(us / time.baseline_us)) for us in settlement.fresh_us)
    if len(changes) < FRESH:
        return None
    width = math.log((100 + time.decision.high_pct) / (100 + time.decision.low_pct)) / 2
    low, high = as_pct(-width), max(as_pct(width), tolerance_pct)
    inside = sum(low <= change <= high for change in changes) * (not time.too_noisy)
    outcome = Outcome.PASS if 2 * inside > len(changes) else Outcome.INCONCLUSIVE
    if changes[0] > max(high, least_pct):
        outcome = Outcome.REGRESSED
    elif changes[-1] < min(low, -least_pct):
        outcome = Outcome.IMPROVED
    pct = median(changes)
    return replace(
        time,
        decision=Decision(outcome, pct, changes[0], changes[-1], len(changes)),
        actual_us=time.baseline_us * (1 + pct / 100),
        how="fresh",
    )


def _not_compared(timing: Timing, known: TimeBaseline, origin: Origin) -> Finding:
    """Say why a time is another quantity than that of the baseline."""
    why = ", ".join(filter(None, [timing.not_captured, timing.not_recorded]))
    now = f"{timing.mode} by {timing.source}" + (f" ({why})" if why else "")
    line = f"the time was taken {now}, the baseline's {known.mode} by {known.source}: not compared"
    _, machine = origin.differences(known.sessions)
    if other := [one for one in machine if one.startswith("allocator")]:
        return Finding(Status.INCONCLUSIVE, f"{line}; {other[0]}")
    if timing.not_captured and known.mode in ("hot", "cold"):
        return Finding(Status.REGRESSED, line)
    asked = timing.mode != known.mode and not timing.not_captured
    return Finding(Status.INVALID if asked else Status.INCONCLUSIVE, line)


def time_line(time: TimeComparison, mode: TimingMode) -> str:
    """Return `49.4 % slower: 66.8 → 99.8 µs (48.8 to 50.0 %; in turn, 2 restarts, old code 1a2b3c4)`."""
    decision = time.decision
    # Logarithms and back leave a difference in the last digits.
    actual, expected = show_pair(float(f"{time.actual_us:.6g}"), float(f"{time.baseline_us:.6g}"))
    slower = decision.change_pct >= 0
    low, high = (decision.low_pct, decision.high_pct) if slower else (-decision.high_pct, -decision.low_pct)
    unit = "µs" if mode == "hot" else f"µs {mode}"
    return (
        f"{abs(decision.change_pct):.1f} % {'slower' if slower else 'faster'}: {expected} → {actual} {unit} "
        f"({low:.1f} to {high:.1f} %; {', '.join((*_how(time), *time.why))})"
    )


def _how(time: TimeComparison) -> Iterator[str]:
    decision, replicate = time.decision, _REPLICATES[time.how]
    left_out = time.how == "screen" and time.stored > decision.replicates
    known = time.stored if left_out else decision.replicates
    ending = "" if known == 1 else "es" if replicate.endswith("s") else "s"
    count = f"{f'{decision.replicates} of ' if left_out else ''}{known} {replicate}{ending}"
    yield f"in turn, {count}, old code {time.against}" if time.how == "in turn" else count
    if left_out and not decision.new_card:
        yield "same card"
    if decision.as_measured:
        yield f"at {time.actual_mhz:.0f} instead of {time.baseline_mhz:.0f} MHz"
    if time.too_noisy:
        yield "noisy"
    if decision.new_card:
        yield "on a card that the baseline has not seen"
