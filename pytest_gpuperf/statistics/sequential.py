"""Old and new code in turn on one GPU: the order of blocks, the ratio of a restart, when to stop.

The restart (both sides in fresh processes) is the replicate. Quads of one restart share a memory layout and a
state of the GPU, so their spread does not predict the next restart. The side that goes ahead in a restart
allocates its tensors first, and that alone moves a time by tenths of 1 % on an H200. So the sides go ahead in
turn, and restarts are compared with those of the same order.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from pytest_gpuperf.statistics.decision import Decision, Estimate, Outcome, Thresholds, decide
from pytest_gpuperf.statistics.estimate import trimmed_mean
from pytest_gpuperf.statistics.variance import guess, shrink, within

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

Side: TypeAlias = Literal["A", "B"]
"""`A` is the old code, `B` the new."""
Quad: TypeAlias = Literal["ABBA", "BAAB"]
"""The sides of four blocks in a row: a linear drift cancels in either."""


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


def next_look(replicates: int, thresholds: Thresholds) -> int | None:
    """Return the number of restarts at which to decide next; None after the last look."""
    looks = (thresholds.pass_look, *thresholds.looks) if _may_pass_early(thresholds) else thresholds.looks
    return next((look for look in looks if look > replicates), None)


def spend(look: int, thresholds: Thresholds, level: float) -> float:
    """Return the part of a level for the test after `look` restarts; all looks together use the level.

    The first looks get very little, the last one nearly all, by the function of K. K. G. Lan and D. L.
    DeMets, Biometrika 70 (1983) 659, that resembles the bounds of O'Brien and Fleming. Each look is tested at
    its own increment, which errs on the safe side, because looks are correlated.

    Args:
        look: Restarts so far.
        thresholds: The looks and the level.
        level: One-sided.
    """
    return _spent(look, thresholds, level) - _spent(_look_before(look, thresholds), thresholds, level)


def decide_restarts(
    log_ratios: Sequence[float],
    thresholds: Thresholds,
    comparisons: int = 1,
    tolerance_pct: float = 0.0,
    final: bool = False,
    *,
    raw: Sequence[float] = (),
    new_first: Sequence[bool] = (),
) -> Decision:
    """Judge the restarts of a comparison in turn so far.

    At a look before the last, the comparison ends only if the result is clear at the level spent there:
    slower, faster, or unchanged with `loss_pct` ruled out. The last look decides by `decide` with the level
    that is left. At `pass_look` the comparison can only pass. That cannot raise the share of false alarms
    (stopping for futility; S. S. Emerson and T. R. Fleming, Biometrics 45 (1989) 905). A change counts from
    `restart_indifference_pct` on.

    The bounds are at the level of the look (repeated confidence intervals; C. Jennison and B. W. Turnbull, J.
    R. Stat. Soc. B 51 (1989) 305).

    Both sides share the machine, so a lower clock on one side is an effect of its code. If the times as
    measured and those at one clock disagree, each has half of the level, and slower by either is slower.

    Args:
        log_ratios: `restart_log_ratio` of each restart, at least one, at one clock if that is known.
        thresholds: The thresholds to apply. A change is significant at `false_discovery_rate / comparisons`.
        comparisons: Number of tests that are compared with older code in this run.
        tolerance_pct: Slowdown that is accepted, in %; 0 leaves it to statistics.
        final: True if no restart follows, as after the last of `thresholds.looks`.
        raw: The same for the times as measured; by default `log_ratios`.
        new_first: For each restart, True if the new code went ahead; by default every second.

    Returns:
        A decision that is `inconclusive` if it takes more restarts to tell.
    """
    thresholds = replace(thresholds, indifference_pct=thresholds.restart_indifference_pct)
    indifferent = math.log1p(thresholds.indifference_pct / 100)
    if all(abs(one - other) <= indifferent for one, other in zip(log_ratios, raw, strict=False)):
        return _decide(
            _estimate(log_ratios, new_first, thresholds), thresholds, comparisons, tolerance_pct, final
        )
    at_one_clock, as_measured = (
        _decide(_estimate(ratios, new_first, thresholds), thresholds, 2 * comparisons, tolerance_pct, final)
        for ratios in (log_ratios, raw)
    )
    if Outcome.REGRESSED not in (at_one_clock.outcome, as_measured.outcome):
        last = final or len(log_ratios) >= thresholds.looks[-1]
        slower = as_measured.change_pct > max(thresholds.loss_pct, tolerance_pct)
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
    return 100 * math.expm1(fmean(map(fmean, _by_order(log_ratios, new_first))))


def _decide(
    estimate: Estimate, thresholds: Thresholds, comparisons: int, tolerance_pct: float, final: bool
) -> Decision:
    restarts = estimate.replicates
    last = final or restarts >= thresholds.looks[-1]
    if not last and restarts not in thresholds.looks:
        passing = restarts == thresholds.pass_look and _may_pass_early(thresholds)
        between = decide(
            estimate,
            thresholds,
            slower=False,
            faster=False,
            alpha=thresholds.alpha * thresholds.pass_share,
            tolerance_pct=tolerance_pct,
            last=False,
        )
        return between if passing else msgspec.structs.replace(between, outcome=Outcome.INCONCLUSIVE)
    # A comparison that is cut short has the level of its last look.
    look = thresholds.looks[-1] if last else restarts
    level = spend(look, thresholds, thresholds.false_discovery_rate / comparisons)
    return decide(
        estimate,
        thresholds,
        slower=estimate.is_slower(thresholds, level),
        faster=estimate.is_faster(thresholds, level),
        alpha=spend(look, thresholds, _alpha_of_looks(thresholds)),
        tolerance_pct=tolerance_pct,
        last=last,
    )


def _estimate(log_ratios: Sequence[float], new_first: Sequence[bool], thresholds: Thresholds) -> Estimate:
    """Estimate the change from the restarts of both orders."""
    orders = _by_order(log_ratios, new_first)
    own = within(orders)
    guessed = guess(thresholds.restart_sd_pct, thresholds.restart_df)
    # The guess adds its degrees of freedom to quieter restarts, and leaves noisier ones as they are.
    noise = own if own.value > guessed.value else shrink(own, [guessed])
    return Estimate(
        log_ratio=fmean(map(fmean, orders)),
        standard_error=math.sqrt(noise.value * sum(1 / len(ratios) for ratios in orders)) / len(orders),
        df=noise.df,
        replicates=len(log_ratios),
    )


def _by_order(log_ratios: Sequence[float], new_first: Sequence[bool]) -> list[list[float]]:
    """Group restarts by the side that went ahead: first the old code, then the new; no group is empty."""
    ahead = new_first or [bool(at % 2) for at in range(len(log_ratios))]
    groups = (
        [ratio for ratio, new in zip(log_ratios, ahead, strict=True) if new == order]
        for order in (False, True)
    )
    return [group for group in groups if group]


def _spent(restarts: int, thresholds: Thresholds, level: float) -> float:
    share = restarts / thresholds.looks[-1]
    return math.erfc(-NormalDist().inv_cdf(level / 2) / math.sqrt(2 * share)) if restarts else 0.0


def _may_pass_early(thresholds: Thresholds) -> bool:
    return 0 < thresholds.pass_look < thresholds.looks[0]


def _alpha_of_looks(thresholds: Thresholds) -> float:
    """Return the part of `alpha` that all looks share."""
    return thresholds.alpha * (1 - thresholds.pass_share * _may_pass_early(thresholds))


def _look_before(look: int, thresholds: Thresholds) -> int:
    return max((other for other in thresholds.looks if other < look), default=0)
