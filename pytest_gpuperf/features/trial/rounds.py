"""Intervals of 90 % of times and ratios from few rounds of one process."""

from __future__ import annotations

import math
from statistics import fmean, variance
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.statistics.decision import t_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUND_SD_PCT = 0.25
"""Least spread of rounds: that of sessions of steady kernels (`tests/data/noise_sessions.json`)."""
ROUND_DF = 3
"""Degrees of freedom of the least spread."""
LEVEL = 0.05
"""One-sided level of each bound."""


class Bounds(NamedTuple):
    """A positive value with its interval."""

    value: float
    low: float
    high: float


def time_bounds(rounds_us: Sequence[float]) -> Bounds:
    """Return the geometric mean of times with its interval, by a t distribution of their logarithms.

    Args:
        rounds_us: One time a round, at least one.
    """
    logs = [math.log(time_us) for time_us in rounds_us]
    df = len(logs) - 1
    own, least = variance(logs) if df else 0.0, (ROUND_SD_PCT / 100) ** 2
    noise, df = (own, df) if own > least else (least, df + ROUND_DF)
    mean, margin = fmean(logs), t_quantile(df, LEVEL) * math.sqrt(noise / len(logs))
    return Bounds(*(math.exp(mean + step) for step in (0.0, -margin, margin)))


def mean_bounds(ratios: Sequence[Bounds]) -> Bounds:
    """Return the geometric mean of independent ratios with its interval."""
    logs = [math.log(ratio.value) for ratio in ratios]
    halves = [math.log(ratio.high / ratio.low) / 2 for ratio in ratios]
    mean, half = fmean(logs), math.hypot(*halves) / len(ratios)
    return Bounds(math.exp(mean), math.exp(mean - half), math.exp(mean + half))
