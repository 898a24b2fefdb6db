"""One value for the blocks of a timing, with its spread and its error."""

from __future__ import annotations

import math
from statistics import quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SHARE = 0.2
"""Share of the values that is cut off at either end: one disturbed block in five does not count."""


def trimmed_mean(values: Sequence[float]) -> float:
    """Return the mean without the lowest and highest `SHARE` of the values, as `scipy.stats.trim_mean`."""
    cut = int(SHARE * len(values))
    kept = sorted(values)[cut : len(values) - cut]
    return sum(kept) / len(kept)


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of `trimmed_mean`, as `scipy.stats.mstats.trimmed_stde`; 0 for one value.

    Tukey and McLaughlin (1963): the standard deviation of the winsorised values over (1 - 2·SHARE)·√n.
    """
    count = len(values)
    if count < 2:
        return 0.0
    cut = int(SHARE * count)
    ordered = sorted(values)
    low, high = ordered[cut], ordered[count - cut - 1]
    winsorised = [low] * cut + ordered[cut : count - cut] + [high] * cut
    mean = sum(winsorised) / count
    variance = sum((value - mean) ** 2 for value in winsorised) / (count - 1)
    return math.sqrt(variance / count) / (1 - 2 * SHARE)


def interquartile_range(values: Sequence[float]) -> float:
    """Return the distance between the quartiles, linearly interpolated as `numpy.quantile` does."""
    if len(values) < 2:
        return 0.0
    low, _, high = quantiles(values, n=4, method="inclusive")
    return high - low
