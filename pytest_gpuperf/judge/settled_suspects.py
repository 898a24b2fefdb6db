"""Judgement of a suspect by its settlement: old and new code in turn, or fresh processes."""

from __future__ import annotations

import math
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from pytest_gpuperf.judge.result import TimeComparison
from pytest_gpuperf.records.change import show_signed
from pytest_gpuperf.statistics.decision import Decision, Outcome, as_pct
from pytest_gpuperf.statistics.sequential import decide_restarts
from pytest_gpuperf.statistics.thresholds import ALIKE_PCT, FRESH, LARGE_PCT, MACHINE_PCT

if TYPE_CHECKING:
    from pytest_gpuperf.judge.times import Origin
    from pytest_gpuperf.records import AgainstTiming, Settlement
    from pytest_gpuperf.records.baseline import TimeBaseline

NOT_SETTLED = "not settled"
"""Why a suspect stays undecided, if nothing else is known."""
STORED_OFF = "the stored session is off"


def judge_settlement(
    time: TimeComparison,
    settlement: Settlement | None,
    known: TimeBaseline,
    is_same: bool | None,
    origin: Origin,
    tolerance_pct: float,
) -> tuple[TimeComparison, str]:
    """Judge a time outside the screen by its settlement, unless that is of other sessions.

    Args:
        time: The comparison with the screen.
        settlement: How it was settled; None if it was not.
        known: The stored sessions.
        is_same: True if old or new code has the hashes of the newest session; None if no hashes are known.
        origin: What differs from the sessions.
        tolerance_pct: Slowdown that is accepted, in %.

    Returns:
        The comparison that decides, and the other causes that moved the time: `driver 580 -> 590`; empty if
        nothing did.
    """
    if settlement is None or not {one.run for one in known.sessions}.issuperset(settlement.sessions):
        return replace(time, why=(NOT_SETTLED,), suspect=True), ""
    packages, machine = map(", ".join, origin.differences(known.sessions))
    # By the host's clock, unchanged calls differ by up to 84 % between two processes on one card.
    least_pct = math.inf if known.mode == "host" else MACHINE_PCT if machine else 0.0
    fresh = compare_fresh(settlement, time, tolerance_pct, least_pct)
    if settlement.how == "fresh" and fresh is not None:
        return _because(fresh, f"old code could not be timed in turn: {settlement.reason}"), ""
    against = settlement.against
    turn = compare_restarts(against, tolerance_pct)
    if settlement.how != "in turn" or against is None or turn is None:
        return _because(time, settlement.reason or NOT_SETTLED), ""
    if turn.outcome is Outcome.INCONCLUSIVE:
        low, high = map(show_signed, (turn.decision.low_pct, turn.decision.high_pct))
        restarts = f"{turn.decision.replicates} restarts, old code {turn.against}"
        return _because(time, f"in turn {low} to {high} %, {restarts}"), ""
    tolerated = ALIKE_PCT < turn.decision.change_pct <= tolerance_pct
    if turn.outcome is not Outcome.PASS or tolerated:
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
    small = abs(time.decision.change_pct) <= LARGE_PCT
    if not (machine or (is_same and small)):
        return _because(time, alike, "nothing that is known differs from the baseline"), ""
    # If old code only brought its session, and other code was measured, both sides may be slow.
    notes = [origin.runs[one.run] for one in known.sessions if one.run in origin.runs]
    measured = any(note.measured(against.commit) for note in notes)
    if not (is_same or measured or (is_same is None and small)):
        return _because(time, alike, machine, f"{against.ref} need not have the code that was measured"), ""
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

    They are at the clock of `time`, the first one next to the sessions. Only changes from `least_pct` on
    count. Returns None if there are too few.
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
