"""Ratios with their intervals: three standard errors on either side."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_gpuperf.features.trial.record import Interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
