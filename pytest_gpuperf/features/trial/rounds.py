"""Intervals of 90 % of times and ratios from few rounds of one process."""

from __future__ import annotations

import math
from statistics import fmean, variance
from typing import TYPE_CHECKING

from pytest_gpuperf.features.trial.record import Interval
from pytest_gpuperf.statistics.decision import t_quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROUND_SD_PCT = 0.25
"""Least spread of rounds: that of sessions of steady kernels (`tests/data/noise_sessions.json`)."""
ROUND_DF = 3
"""Degrees of freedom of the least spread."""
LEVEL = 0.05
"""One-sided level of each bound."""


def time_bounds(rounds_us: Sequence[float]) -> Interval:
    """Return the geometric mean of times with its interval, by a t distribution of their logarithms.

    Args:
        rounds_us: One time a round, at least one.
    """
    logs = [math.log(time_us) for time_us in rounds_us]
    df = len(logs) - 1
    own, least = variance(logs) if df else 0.0, (ROUND_SD_PCT / 100) ** 2
    noise, df = (own, df) if own > least else (least, df + ROUND_DF)
    mean, margin = fmean(logs), t_quantile(df, LEVEL) * math.sqrt(noise / len(logs))
    return rounded(math.exp(mean + step) for step in (0.0, -margin, margin))


def mean_bounds(ratios: Sequence[Interval]) -> Interval:
    """Return the geometric mean of independent ratios with its interval."""
    logs = [math.log(ratio.value) for ratio in ratios]
    halves = [math.log(ratio.high / ratio.low) / 2 for ratio in ratios]
    mean, half = fmean(logs), math.hypot(*halves) / len(ratios)
    return rounded(math.exp(mean + step) for step in (0.0, -half, half))


def rounded(bounds: Iterable[float]) -> Interval:
    """Return a value, its lower and its upper bound with six digits."""
    value, low, high = (float(f"{number:.6g}") for number in bounds)
    return Interval(value=value, low=low, high=high)
