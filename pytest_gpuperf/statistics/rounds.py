"""Intervals of 90 % of times and ratios from few rounds of one process."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.statistics.decision import Estimate, Thresholds
from pytest_gpuperf.statistics.variance import guess, shrink, within

if TYPE_CHECKING:
    from collections.abc import Sequence


class Bounds(NamedTuple):
    """A positive value with its interval."""

    value: float
    low: float
    high: float


def time_bounds(rounds_us: Sequence[float], thresholds: Thresholds) -> Bounds:
    """Return the geometric mean of times with its interval, by a t distribution of their logarithms.

    The guess of the spread between sessions adds its degrees of freedom to quieter rounds, as for restarts.

    Args:
        rounds_us: One time a round, at least one.
        thresholds: The guess, and the level of each bound.
    """
    logs = [math.log(time_us) for time_us in rounds_us]
    own, guessed = within([logs]), guess(thresholds.session_sd_pct, thresholds.session_df)
    noise = own if own.value > guessed.value else shrink(own, [guessed])
    estimate = Estimate(fmean(logs), math.sqrt(noise.value / len(logs)), noise.df, len(logs))
    margin = estimate.margin(thresholds.alpha)
    return Bounds(*(math.exp(estimate.log_ratio + step) for step in (0.0, -margin, margin)))


def mean_bounds(ratios: Sequence[Bounds]) -> Bounds:
    """Return the geometric mean of independent ratios with its interval."""
    logs = [math.log(ratio.value) for ratio in ratios]
    halves = [math.log(ratio.high / ratio.low) / 2 for ratio in ratios]
    mean, half = fmean(logs), math.hypot(*halves) / len(ratios)
    return Bounds(math.exp(mean), math.exp(mean - half), math.exp(mean + half))
