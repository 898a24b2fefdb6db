"""Old and new code in turn on one GPU: the decision by the ratios of restarts, and when to stop.

The restart (both sides in fresh processes) is the replicate. Quads of one restart share a memory layout and a
state of the GPU, so their spread does not predict the next restart. The side that goes ahead in a restart
allocates its tensors first, and that alone moves a time by tenths of 1 % on an H200. So the sides go ahead in
turn, and restarts are compared with those of the same order.
"""

from __future__ import annotations

import math
from statistics import fmean, variance
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from pytest_gpuperf.statistics.decision import Decision, Outcome, as_pct, t_tail
from pytest_gpuperf.statistics.thresholds import (
    ALIKE_PCT,
    LARGE_PCT,
    LEVEL,
    LOOKS,
    MACHINE_PCT,
    SCREEN_PCT,
    SURE,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

Side: TypeAlias = Literal["A", "B"]
"""`A` is the old code, `B` the new."""

LOSS_PCT = 2 * SCREEN_PCT
"""Slowdown that a comparison in turn has to rule out before it calls its code alike. Also the width of the
screen on a card that the baseline has not seen: outside are 7 % of the times of unchanged kernels at full
clock, and all of those with 5 % more work."""


def decide_restarts(
    log_ratios: Sequence[float],
    tolerance_pct: float = 0.0,
    *,
    final: bool = False,
    raw: Sequence[float] = (),
    new_first: Sequence[bool] = (),
    by_host: bool = False,
) -> Decision:
    """Judge the restarts of a comparison in turn so far: `inconclusive` if it takes more to tell.

    At a look before the last, the comparison ends only if the result is clear: slower, faster, or alike with
    a loss of 1 % ruled out. Early looks have a tenth of the level (Haybittle, Br. J. Radiol. 44 (1971) 793).
    From four restarts on, code is also alike by the latter half of them: the first ones find the GPU's memory
    as the run has left it (in 7 of 8 hot suspects that took more than four, one of the first two is apart).
    Two restarts that are a large change apart (14 of 91 suspects of unchanged code) show a spread.

    Both sides share the machine, so a lower clock on one side is an effect of its code: slower by either of
    the times as measured and those at one clock is slower. Before the last look both have to agree.

    Args:
        log_ratios: Logarithm of new over old time in each restart, at least one, at one clock if it is known.
        tolerance_pct: Slowdown that is accepted, in %.
        final: True if no restart follows, as after the last of `LOOKS`.
        raw: The same for the times as measured; by default `log_ratios`.
        new_first: For each restart, True if the new code went ahead; by default every second.
        by_host: True if the host's clock took the times: all widths are as much larger as that of the screen.
    """
    count, scale = len(log_ratios), MACHINE_PCT / SCREEN_PCT if by_host else 1.0
    series = (log_ratios, raw or log_ratios, new_first)
    decision = _both(series, tolerance_pct, scale, last=final or count >= LOOKS[-1])
    if decision.outcome is Outcome.INCONCLUSIVE and count in LOOKS[1:]:
        latter = _both([one[count // 4 * 2 :] for one in series], tolerance_pct, scale, last=False)
        if latter.outcome is Outcome.PASS:
            return msgspec.structs.replace(latter, replicates=count)
    return decision


def _both(series: Sequence[Sequence[float]], tolerance_pct: float, scale: float, *, last: bool) -> Decision:
    *clocks, new_first = series
    at_one_clock, as_measured = (
        _decide(_by_order(ratios, new_first), tolerance_pct, scale, last=last) for ratios in clocks
    )
    if at_one_clock.outcome is as_measured.outcome or at_one_clock.outcome is Outcome.REGRESSED:
        return at_one_clock
    if as_measured.outcome is Outcome.REGRESSED:
        return msgspec.structs.replace(as_measured, as_measured=True)
    return at_one_clock if last else msgspec.structs.replace(at_one_clock, outcome=Outcome.INCONCLUSIVE)


def _decide(orders: Sequence[Sequence[float]], tolerance_pct: float, scale: float, *, last: bool) -> Decision:
    alike_pct, loss_pct, large_pct = scale * ALIKE_PCT, scale * LOSS_PCT, scale * LARGE_PCT
    change, count = fmean(map(fmean, orders)), sum(map(len, orders))
    least, most = min(map(min, orders)), max(map(max, orders))
    is_large = len(orders) > 1 and (as_pct(least) > large_pct or as_pct(most) < -large_pct)
    # Of two restarts that are so far apart, nobody knows if only the order differs.
    is_far = count == 2 and not is_large and as_pct(most - least) > large_pct
    error, df = _error([[least, most]] if is_far else orders, alike_pct)
    pct, low_pct, high_pct = (as_pct(change + side * SURE * error) for side in (0, -1, 1))
    outcome = Outcome.INCONCLUSIVE
    if last or count in LOOKS:
        beyond = (abs(change) - math.log1p(alike_pct / 100)) / error
        called = is_large or t_tail(df, beyond) < (LEVEL if last else LEVEL / 10)
        # A possible change is worth the restarts that are left.
        alike = last or -alike_pct <= pct <= max(alike_pct, tolerance_pct)
        if called and pct > tolerance_pct:
            outcome = Outcome.REGRESSED
        elif called and pct < 0:
            outcome = Outcome.IMPROVED
        elif alike and (high_pct < max(loss_pct, tolerance_pct) or (last and 0 < pct <= tolerance_pct)):
            outcome = Outcome.PASS
    return Decision(outcome, pct, low_pct, high_pct, count)


def _error(orders: Sequence[Sequence[float]], least_pct: float) -> tuple[float, int]:
    """Return the standard error of a change from restarts of both orders, and its degrees of freedom.

    The least spread adds as many degrees of freedom as the means of both orders take.
    """
    several = [order for order in orders if len(order) > 1]
    df = sum(len(order) - 1 for order in several)
    own = sum((len(order) - 1) * variance(order) for order in several) / df if df else 0.0
    least = (least_pct / 100) ** 2
    noise, df = (own, df) if own > least else (least, max(2, sum(map(len, orders))))
    return math.sqrt(noise * sum(1 / len(order) for order in orders)) / len(orders), df


def _by_order(log_ratios: Sequence[float], new_first: Sequence[float]) -> list[list[float]]:
    """Group restarts by the side that went ahead: first the old code, then the new; no group is empty."""
    ahead = new_first or [bool(at % 2) for at in range(len(log_ratios))]
    pairs = list(zip(log_ratios, ahead, strict=True))
    groups = ([ratio for ratio, new in pairs if new == order] for order in (False, True))
    return [group for group in groups if group]
