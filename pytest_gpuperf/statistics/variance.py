"""Variance of a test's time between sessions, from few sessions: its own, the suite's and a guess."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from pytest_gpuperf.statistics.decision import Thresholds

    Key = TypeVar("Key", bound=Hashable)

LEAST_PRIOR_DF = 2.0
MOST_PRIOR_DF = 6.0
"""Bounds of the suite's weight, in degrees of freedom. Few tests estimate it badly, and two sessions each
make it look more uniform than it is. Without the upper bound, 6 % of simulated runs failed, with it 2 %; in
these runs unchanged tests differ in noise and have twice the guessed noise
(`tests/unit/test_one_session.py`)."""
LEAST_RATIO = 1e-3
"""Minimum ratio of the variance between sessions to the guess. Times are stored with five digits, so sessions
can agree to the last one, which does not tell a standard deviation below some 3 % of the guess."""


class LogTime(msgspec.Struct, frozen=True, gc=False):
    """Time of one test in one session, as a logarithm."""

    log_time: float
    """Natural logarithm of the time in microseconds a call."""
    card: str
    """UUID of the GPU; if drivers hide it, all count as one card."""
    standard_error: float = 0.0
    """Standard error of `log_time` from bringing it to another clock; 0 if it is as measured."""


class Variance(msgspec.Struct, frozen=True, gc=False):
    """Estimated variance of the logarithm of a time."""

    value: float
    df: float
    """Degrees of freedom of the estimate."""


def pool(estimates: Iterable[Variance]) -> Variance:
    """Combine several estimates of one variance: their mean, weighted by degrees of freedom."""
    estimates = list(estimates)
    df = sum(each.df for each in estimates)
    return Variance(sum(each.df * each.value for each in estimates) / df, df)


def within(groups: Iterable[Sequence[float]]) -> Variance:
    """Estimate one variance from groups of replicates with means of their own; 0 df if none has two."""
    several = [group for group in groups if len(group) > 1]
    replicated = [Variance(_sample_variance(group), len(group) - 1) for group in several]
    return pool(replicated) if replicated else Variance(0.0, 0.0)


def _sample_variance(values: Sequence[float]) -> float:
    """Return the sample variance, as `statistics.variance`, whose exact fractions take 20 times as long."""
    mean = statistics.fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def shrink(own: Variance, towards: Iterable[Variance]) -> Variance:
    """Blend a measured variance with prior ones: the result is at least half the measured one."""
    blend = pool([own, *towards])
    return Variance(max(blend.value, own.value / 2), blend.df)


def add(parts: Iterable[Variance]) -> Variance:
    """Add variances of independent parts, with the degrees of freedom of Welch and Satterthwaite.

    Source: F. E. Satterthwaite, Biometrics Bulletin 2 (1946) 110.
    """
    parts = list(parts)
    total = sum(part.value for part in parts)
    return Variance(total, total**2 / sum(part.value**2 / part.df for part in parts))


def guess(sd_pct: float, df: float) -> Variance:
    """Return a standard deviation in % as an estimate that weighs `df`."""
    return Variance((sd_pct / 100) ** 2, df)


def by_card(sessions: Iterable[LogTime]) -> dict[str, list[LogTime]]:
    """Group sessions by the card that they ran on."""
    cards: dict[str, list[LogTime]] = {}
    for session in sessions:
        cards.setdefault(session.card, []).append(session)
    return cards


def moderate(baselines: Mapping[Key, Sequence[LogTime]], thresholds: Thresholds) -> dict[Key, Variance]:
    """Estimate the variance between sessions of each test.

    Empirical Bayes as in G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004) 3 (limma's `squeezeVar`): a
    test's own variance is shrunk towards that of the suite. Here that prior weighs 2 to 6 degrees of freedom,
    and a part of the guess of `thresholds` is blended in as `session_df` more. The unit is the guess, larger
    for kernels of few microseconds. The result is at least half the test's own variance. Without replicates
    it is at least the guess: a test may be as noisy as the suite, but nothing shows that it is as quiet.

    Args:
        baselines: Stored sessions by test; those on one card are replicates.
        thresholds: The guess.

    Returns:
        A variance for each test that has a session, of the natural logarithm of its time.
    """
    guesses = {
        key: expected_variance([session.log_time for session in sessions], thresholds)
        for key, sessions in baselines.items()
        if sessions
    }
    ratios: dict[Key, Variance] = {}
    for key, expected in guesses.items():
        cards = by_card(baselines[key]).values()
        own = within([session.log_time for session in group] for group in cards)
        if own.df:
            ratios[key] = Variance(max(own.value / expected.value, LEAST_RATIO), own.df)
    prior = _prior(list(ratios.values()))
    general = pool([Variance(thresholds.replicated_share**2, thresholds.session_df), *prior])
    moderated: dict[Key, Variance] = {}
    for key, expected in guesses.items():
        if key in ratios:
            ratio = shrink(ratios[key], [general])
        else:
            ratio = Variance(max(general.value, 1.0), thresholds.session_df)
        moderated[key] = Variance(ratio.value * expected.value, ratio.df)
    return moderated


def expected_variance(log_times: Iterable[float], thresholds: Thresholds) -> Variance:
    """Return the guess of the variance between sessions for a test with these times, at least one."""
    time_us = math.exp(statistics.fmean(log_times))
    sd_pct = max(thresholds.session_sd_pct, 100 * thresholds.session_sd_us / time_us)
    return guess(sd_pct, thresholds.session_df)


def _prior(variances: Sequence[Variance]) -> list[Variance]:
    """Estimate the prior from the variances; empty if fewer than two are known.

    Moments of the logarithm of a scaled F distribution, Smyth's section 6.2.
    """
    if len(variances) < 2:
        return []
    import numpy as np
    from scipy.optimize import brentq
    from scipy.special import digamma, polygamma

    half_df = np.array([each.df for each in variances]) / 2
    logs = np.log([each.value for each in variances]) - digamma(half_df) + np.log(half_df)
    excess = float(np.var(logs, ddof=1) - np.mean(polygamma(1, half_df)))

    def spread(df: float) -> float:
        return float(polygamma(1, df / 2))

    if excess <= spread(MOST_PRIOR_DF):
        df = MOST_PRIOR_DF
    elif excess >= spread(LEAST_PRIOR_DF):
        df = LEAST_PRIOR_DF
    else:
        df = brentq(lambda at: spread(at) - excess, LEAST_PRIOR_DF, MOST_PRIOR_DF)
    # The scale that belongs to the clamped df: with the unclamped one, a suite with a few very noisy tests
    # would look quieter than it is.
    return [Variance(float(np.exp(np.mean(logs) + digamma(df / 2) - np.log(df / 2))), df)]
