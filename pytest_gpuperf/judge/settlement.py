"""Settlement of a suspect: old and new code in turn, or fresh processes, to an outcome."""

from __future__ import annotations

import math
from statistics import fmean, median
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.judge.screen import TimeComparison
from pytest_gpuperf.statistics.decision import Decision, Outcome, as_pct
from pytest_gpuperf.statistics.sequential import change_pct, decide_restarts
from pytest_gpuperf.statistics.thresholds import ALIKE_PCT, FRESH, LARGE_PCT

if TYPE_CHECKING:
    from pytest_gpuperf.judge.origin import Differences
    from pytest_gpuperf.records import AgainstTiming, Settlement

NOT_SETTLED = "not settled"
"""Why a suspect stays undecided, if nothing else is known."""


def judge_suspect(
    time: TimeComparison,
    settlement: Settlement,
    differences: Differences,
    tolerance_pct: float,
    *,
    known_code: bool,
    by_host: bool = False,
) -> tuple[TimeComparison, str]:
    """Judge a time outside the screen by its settlement.

    Args:
        time: The time next to the sessions.
        settlement: How it was settled.
        differences: What differs between the baseline and now.
        tolerance_pct: Slowdown that is accepted, in %.
        known_code: True if the baseline has hashes of its machine code, which the old side had to have.
        by_host: True if the host's clock took the time: then another machine's may be anything.

    Returns:
        The comparison that decides, and what else than the code moved the time: `driver 580 -> 590`; empty if
        nothing did.
    """
    least_pct = (math.inf if by_host else LARGE_PCT) if differences.machine else 0.0
    fresh = compare_fresh(settlement, time, tolerance_pct, least_pct)
    if settlement.how == "fresh" and fresh is not None:
        return _because(fresh, f"old code could not be timed in turn: {settlement.reason}"), ""
    turn = compare_restarts(settlement.against, tolerance_pct) if settlement.against is not None else None
    if settlement.how != "in turn" or turn is None:
        return _because(time, settlement.reason or NOT_SETTLED), ""
    tolerated = ALIKE_PCT < turn.decision.change_pct <= tolerance_pct
    if turn.decision.outcome is not Outcome.PASS or tolerated:
        return turn, ""
    alike = "old and new code are alike in turn"
    machine, packages = ", ".join(differences.machine), ", ".join(differences.packages)
    if machine and packages:
        return _because(time, alike, f"the machine and packages changed: {machine}, {packages}"), ""
    if packages:
        if fresh is None:
            return _because(time, alike, f"{packages}, and no fresh processes confirm it"), ""
        return _because(fresh, alike, f"by the toolchain: {packages}"), ""
    if not (machine or known_code):
        return _because(time, alike, "nothing that is known differs from the baseline"), ""
    passed = replace(time, decision=replace(time.decision, outcome=Outcome.PASS))
    return _because(passed, alike, machine or "the stored session is off"), machine


def _because(time: TimeComparison, *why: str) -> TimeComparison:
    return replace(time, why=why)


def compare_restarts(against: AgainstTiming, tolerance_pct: float = 0.0) -> TimeComparison | None:
    """Judge a time against older code, both measured in turn on one GPU.

    Args:
        against: The ratios of both times.
        tolerance_pct: Slowdown that is accepted, in %.

    Returns:
        None without restarts.
    """
    ratios, raw, first = against.log_ratios, against.raw_log_ratios, against.new_first
    if not ratios:
        return None
    decision = decide_restarts(ratios, tolerance_pct, final=True, raw=raw, new_first=first)
    # The decision is on the ratio of restarts; the mean of all blocks may differ from it a little.
    old_us = against.new_us / (1 + decision.change_pct / 100)
    at_one_clock = raw not in ((), ratios) and not decision.as_measured
    return TimeComparison(
        decision=decision,
        actual_us=against.new_us,
        baseline_us=old_us,
        raw_change_pct=change_pct(raw or ratios, first),
        at_mhz=fmean((against.new_mhz, against.old_mhz)) if at_one_clock else 0.0,
        actual_mhz=against.new_mhz,
        baseline_mhz=against.old_mhz,
        how="in turn",
        against=against.ref
        if against.commit.startswith(against.ref)
        else f"{against.ref} ({against.commit[:7]})",
    )


def compare_fresh(
    settlement: Settlement, time: TimeComparison, tolerance_pct: float, least_pct: float = 0.0
) -> TimeComparison | None:
    """Judge the times of fresh processes by the screen: all outside on one side, or most of them inside.

    Args:
        settlement: The times, at the clock of `time`.
        time: The first time next to the sessions.
        tolerance_pct: Slowdown that is accepted, in %.
        least_pct: Least change that counts, in %, as on another machine.

    Returns:
        None if there are too few.
    """
    changes = sorted(as_pct(math.log(us / time.baseline_us)) for us in settlement.fresh_us)
    if len(changes) < FRESH:
        return None
    width = (time.decision.high_pct - time.decision.low_pct) / 2
    least = max(width, least_pct)
    inside = sum(-width <= change <= max(width, tolerance_pct) for change in changes)
    outcome = Outcome.PASS if 2 * inside > len(changes) else Outcome.INCONCLUSIVE
    if changes[0] > max(least, tolerance_pct):
        outcome = Outcome.REGRESSED
    elif changes[-1] < -least:
        outcome = Outcome.IMPROVED
    pct = median(changes)
    return replace(
        time,
        decision=Decision(outcome, pct, changes[0], changes[-1], len(changes)),
        actual_us=time.baseline_us * (1 + pct / 100),
        how="fresh",
    )
