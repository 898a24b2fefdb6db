"""The time of a test beside that of older code, both taken in turn on one GPU."""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_gpuperf.judge.gate import TimeComparison
from pytest_gpuperf.statistics.decision import Outcome, Thresholds
from pytest_gpuperf.statistics.sequential import change_pct, decide_paired

if TYPE_CHECKING:
    from pytest_gpuperf.records import AgainstTiming


def compare_paired(paired: AgainstTiming, tolerance_pct: float) -> TimeComparison | None:
    """Judge the restarts of a pair; None where there are none, and `paired.reason` says why.

    Args:
        paired: What was measured.
        tolerance_pct: A slowdown up to this is accepted, in per cent; 0 leaves it to statistics.
    """
    if not paired.log_ratios:
        return None
    judge = partial(
        decide_paired,
        paired.log_ratios,
        Thresholds(),
        max(1, paired.comparisons),
        tolerance_pct,
        raw=paired.raw_log_ratios,
        new_first=paired.new_first,
    )
    decision = judge()
    if decision.outcome is Outcome.INCONCLUSIVE:
        # Decided at an early look, at that look's level, it stays so; else it may use all that is left.
        decision = judge(final=True)
    # The ratio of restarts is what was decided on; the mean of all blocks may differ from it a little.
    old_us = paired.new_us / (1 + decision.change_pct / 100)
    raw = paired.raw_log_ratios or paired.log_ratios
    at_one_clock = raw != paired.log_ratios and not decision.as_measured
    return TimeComparison(
        decision=decision,
        actual_us=paired.new_us,
        baseline_us=old_us,
        raw_change_pct=change_pct(raw, paired.new_first),
        at_mhz=fmean((paired.new_mhz, paired.old_mhz)) if at_one_clock else 0.0,
        actual_mhz=paired.new_mhz,
        baseline_mhz=paired.old_mhz,
        against=f"{paired.ref} ({paired.commit[:7]})",
        in_turn=True,
    )
