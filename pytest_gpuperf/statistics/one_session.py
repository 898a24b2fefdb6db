"""One new session compared with stored ones: is a test slower than its baseline?"""

from __future__ import annotations

import math
from statistics import fmean
from statistics import variance as sample_variance
from typing import TYPE_CHECKING

from pytest_gpuperf.statistics.decision import Decision, Estimate, Thresholds, decide
from pytest_gpuperf.statistics.variance import Variance, add, by_card, guess, pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.statistics.variance import LogTime


def decide_session(
    new: LogTime,
    stored: Sequence[LogTime],
    variance: Variance,
    thresholds: Thresholds,
    comparisons: int,
    tolerance_pct: float = 0.0,
) -> Decision:
    """Judge one test as soon as it has ended, before the others have.

    A change is significant at `thresholds.false_discovery_rate / comparisons`: Bonferroni, the first step of
    Benjamini and Hochberg, which calls no test slower or faster that these would not call so over the suite.

    Args:
        new: The new session.
        stored: The sessions of the baseline, at least one.
        variance: The test's own from `moderate` over all baselines of the suite.
        thresholds: The thresholds to apply.
        comparisons: Tests of the suite that are judged in this run.
        tolerance_pct: Slowdown that is accepted, in %; 0 leaves it to statistics.
    """
    estimate = _estimate(new, stored, variance, thresholds)
    level = thresholds.false_discovery_rate / comparisons
    return decide(
        estimate,
        thresholds,
        slower=estimate.is_slower(thresholds, level),
        faster=estimate.is_faster(thresholds, level),
        alpha=thresholds.alpha,
        tolerance_pct=tolerance_pct,
    )


def _estimate(
    new: LogTime, stored: Sequence[LogTime], variance: Variance, thresholds: Thresholds
) -> Estimate:
    """Estimate the change against the stored sessions of the same card, or against the mean of all cards."""
    cards = by_card(stored)
    new_card = new.card not in cards
    counted = list(cards.values()) if new_card else [cards[new.card]]
    # Each card weighs the same, so a session of a card with few sessions weighs more.
    weights = [1 / (len(counted) * len(group)) for group in counted for _ in group]
    sessions = [session for group in counted for session in group]
    expected = math.fsum(weight * each.log_time for weight, each in zip(weights, sessions, strict=True))
    known = new.standard_error**2 + math.fsum(
        (weight * each.standard_error) ** 2 for weight, each in zip(weights, sessions, strict=True)
    )
    noise = variance.value * (1 + math.fsum(weight**2 for weight in weights))
    parts = [Variance(noise, variance.df), Variance(known, thresholds.session_df)]
    if new_card:
        between = _between_cards(counted, variance, thresholds)
        parts.append(Variance(between.value * (1 + 1 / len(counted)), between.df))
    error = add(parts)
    return Estimate(
        log_ratio=new.log_time - expected,
        standard_error=math.sqrt(error.value),
        df=error.df,
        replicates=len(sessions),
        new_card=new_card,
    )


def _between_cards(
    groups: Sequence[Sequence[LogTime]], variance: Variance, thresholds: Thresholds
) -> Variance:
    """Estimate the variance between cards, beyond that between the sessions of one card."""
    expected = guess(thresholds.card_sd_pct, thresholds.card_df)
    if len(groups) < 2:
        return expected
    means = [fmean(session.log_time for session in group) for group in groups]
    noise = variance.value * fmean(1 / len(group) for group in groups)
    return pool([expected, Variance(max(sample_variance(means) - noise, 0.0), len(groups) - 1)])
