"""Old and new code in turn on one GPU: the order of blocks, the ratio of a restart, when to stop.

The restart (both sides in fresh processes) is the replicate. Quads of one restart share a memory layout and a
state of the GPU, so their spread does not predict the next restart. The side that goes ahead in a restart
allocates its tensors first, and that alone moves a time by tenths of 1 % on an H200. So the sides go ahead in
turn, and restarts are compared with those of the same order.
"""

from __future__ import annotations

import math
from statistics import NormalDist, fmean, variance
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from pytest_gpuperf.statistics.decision import Decision, Outcome, as_pct, t_quantile, t_tail
from pytest_gpuperf.statistics.estimate import trimmed_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

Side: TypeAlias = Literal["A", "B"]
"""`A` is the old code, `B` the new."""
Quad: TypeAlias = Literal["ABBA", "BAAB"]
"""The sides of four blocks in a row: a linear drift cancels in either."""

LEVEL = 1e-4
"""One-sided level at which a comparison calls its code slower or faster, whatever else runs."""
LOOKS = (2, 4, 6, 10)
"""Numbers of restarts after which a comparison may end; even, as the sides go ahead in turn. At the first it
ends with a large change or as alike."""
BOUNDS_LEVEL = 0.05
"""One-sided level of the bounds of a change over all looks; a quarter of it is spent at the first."""
LARGE_PCT = 3.0
"""Change that two restarts decide: none of 8,593 couples of restarts of unchanged code, one of each order,
has both of them beyond 2 % on the same side (`gate_power*.jsonl.gz`)."""
ALIKE_PCT = 0.15
"""Largest change that counts as none: means of ten restarts of unchanged kernels differ from 0 by 0.08 % on
three cards and 0.17 % on a fourth (`gate_power*.jsonl.gz`)."""
RESTART_SD_PCT = 0.15
"""Least spread between restarts of one order: half of the kernels of the samples have 0.01 to 0.05 % there,
nine in ten less than this (`gate_power*.jsonl.gz`). A noisier one counts as noisy as it is."""
RESTART_DF = 4
"""Degrees of freedom of the least spread."""
LOSS_PCT = 1.0
"""Slowdown that a comparison in turn has to rule out before it calls its code alike."""


def quad_order(rng: Random, quads: int) -> tuple[Quad, ...]:
    """Return the orders of a restart's quads: half of each kind (give or take one), shuffled.

    Args:
        rng: Source of the order.
        quads: Number of quads.
    """
    kinds: list[Quad] = ["ABBA", "BAAB"]
    rng.shuffle(kinds)
    order = [kinds[at % 2] for at in range(quads)]
    rng.shuffle(order)
    return tuple(order)


def restart_log_ratio(blocks: Sequence[tuple[Side, float]]) -> float:
    """Return the natural logarithm of new over old time in one restart.

    It is the 20 % trimmed mean over the quads, so that an occasional disturbed block does not count.

    Args:
        blocks: Side and natural logarithm of the time of each block, in the order measured.

    Raises:
        ValueError: The blocks are empty or not in quads.
    """
    quads = [blocks[at : at + 4] for at in range(0, len(blocks), 4)]
    if not quads or any("".join(side for side, _ in quad) not in ("ABBA", "BAAB") for quad in quads):
        raise ValueError("blocks must come in quads of ABBA or BAAB")
    return trimmed_mean([sum(log if side == "B" else -log for side, log in quad) / 2 for quad in quads])


def next_look(replicates: int) -> int | None:
    """Return the number of restarts at which to decide next; None after the last look."""
    return next((look for look in LOOKS if look > replicates), None)


def spend(look: int, level: float) -> float:
    """Return the part of a level for the test after `look` restarts; all looks but the first use it up.

    The early looks get very little, the last one nearly all, by the function of K. K. G. Lan and D. L.
    DeMets, Biometrika 70 (1983) 659, that resembles the bounds of O'Brien and Fleming. Each look is tested at
    its own increment, which errs on the safe side, because looks are correlated.

    Args:
        look: Restarts so far, one of `LOOKS` but the first.
        level: One-sided.
    """
    before = max((other for other in LOOKS[1:] if other < look), default=0)
    return _spent(look, level) - _spent(before, level)


def decide_restarts(
    log_ratios: Sequence[float],
    tolerance_pct: float = 0.0,
    *,
    final: bool = False,
    raw: Sequence[float] = (),
    new_first: Sequence[bool] = (),
) -> Decision:
    """Judge the restarts of a comparison in turn so far.

    At a look before the last, the comparison ends only if the result is clear at the level spent there:
    slower, faster, or alike with a loss of 1 % ruled out. Being alike costs no level (stopping for futility;
    S. S. Emerson and T. R. Fleming, Biometrics 45 (1989) 905). The bounds are at the level of the look
    (repeated confidence intervals; C. Jennison and B. W. Turnbull, J. R. Stat. Soc. B 51 (1989) 305).

    Both sides share the machine, so a lower clock on one side is an effect of its code. If the times as
    measured and those at one clock disagree, each has half of the level, and slower by either is slower.

    Args:
        log_ratios: `restart_log_ratio` of each restart, at least one, at one clock if that is known.
        tolerance_pct: Slowdown that is accepted, in %.
        final: True if no restart follows, as after the last of `LOOKS`.
        raw: The same for the times as measured; by default `log_ratios`.
        new_first: For each restart, True if the new code went ahead; by default every second.

    Returns:
        A decision that is `inconclusive` if it takes more restarts to tell.
    """
    alike = math.log1p(ALIKE_PCT / 100)
    if all(abs(one - other) <= alike for one, other in zip(log_ratios, raw, strict=False)):
        return _decide(log_ratios, new_first, LEVEL, tolerance_pct, final=final)
    at_one_clock, as_measured = (
        _decide(ratios, new_first, LEVEL / 2, tolerance_pct, final=final) for ratios in (log_ratios, raw)
    )
    if Outcome.REGRESSED not in (at_one_clock.outcome, as_measured.outcome):
        last = final or len(log_ratios) >= LOOKS[-1]
        slower = as_measured.change_pct > max(LOSS_PCT, tolerance_pct)
        half = at_one_clock.outcome is Outcome.PASS is not as_measured.outcome
        if not last and (slower or half):
            return msgspec.structs.replace(at_one_clock, outcome=Outcome.INCONCLUSIVE)
    elif at_one_clock.outcome is not Outcome.REGRESSED:
        return msgspec.structs.replace(as_measured, as_measured=True)
    return at_one_clock


def change_pct(log_ratios: Sequence[float], new_first: Sequence[bool] = ()) -> float:
    """Return the estimated change in %, with equal weight for both orders of the sides.

    Args:
        log_ratios: As in `decide_restarts`.
        new_first: As there.
    """
    return as_pct(fmean(map(fmean, _by_order(log_ratios, new_first))))


def _decide(
    log_ratios: Sequence[float],
    new_first: Sequence[bool],
    level: float,
    tolerance_pct: float,
    *,
    final: bool,
) -> Decision:
    orders, count = _by_order(log_ratios, new_first), len(log_ratios)
    change, error, df = _estimate(orders)
    last = final or count >= LOOKS[-1]
    # A comparison that is cut short has the level of its last look.
    look = LOOKS[-1] if last else count
    if look in LOOKS[1:]:
        bounds = spend(look, BOUNDS_LEVEL * 3 / 4)
        distance = abs(change) - math.log1p(ALIKE_PCT / 100)
        called = t_tail(df, distance / error) <= spend(look, level)
    else:
        bounds = BOUNDS_LEVEL / 4
        called = look == LOOKS[0] and _is_large(orders)
    margin = t_quantile(df, bounds) * error
    pct, high_pct = as_pct(change), as_pct(change + margin)
    tolerated = pct <= tolerance_pct
    wanted_pct = max(LOSS_PCT, tolerance_pct)
    outcome = Outcome.INCONCLUSIVE
    if called and change > 0 and not tolerated:
        outcome = Outcome.REGRESSED
    elif called and change < 0:
        outcome = Outcome.IMPROVED
    elif last:
        outcome = Outcome.PASS if high_pct < wanted_pct or 0 < pct <= tolerance_pct else outcome
    elif look in LOOKS and high_pct < wanted_pct:
        # A possible change is worth the restarts that are left.
        outcome = Outcome.PASS if -ALIKE_PCT <= pct <= max(ALIKE_PCT, tolerance_pct) else outcome
    return Decision(outcome, pct, as_pct(change - margin), high_pct, count)


def _is_large(orders: Sequence[Sequence[float]]) -> bool:
    """Return True if all restarts, with some of both orders, have a large change in one direction."""
    least, most = min(map(min, orders)), max(map(max, orders))
    return len(orders) > 1 and (as_pct(least) > LARGE_PCT or as_pct(most) < -LARGE_PCT)


def _estimate(orders: Sequence[Sequence[float]]) -> tuple[float, float, int]:
    """Return the change from the restarts of both orders, its standard error, and degrees of freedom."""
    several = [order for order in orders if len(order) > 1]
    df = sum(len(order) - 1 for order in several)
    own = sum((len(order) - 1) * variance(order) for order in several) / df if df else 0.0
    least = (RESTART_SD_PCT / 100) ** 2
    noise, df = (own, df) if own > least else (least, df + RESTART_DF)
    error = math.sqrt(noise * sum(1 / len(order) for order in orders)) / len(orders)
    return fmean(map(fmean, orders)), error, df


def _by_order(log_ratios: Sequence[float], new_first: Sequence[bool]) -> list[list[float]]:
    """Group restarts by the side that went ahead: first the old code, then the new; no group is empty."""
    ahead = new_first or [bool(at % 2) for at in range(len(log_ratios))]
    groups = (
        [ratio for ratio, new in zip(log_ratios, ahead, strict=True) if new == order]
        for order in (False, True)
    )
    return [group for group in groups if group]


def _spent(restarts: int, level: float) -> float:
    share = restarts / LOOKS[-1]
    return math.erfc(-NormalDist().inv_cdf(level / 2) / math.sqrt(2 * share)) if restarts else 0.0
