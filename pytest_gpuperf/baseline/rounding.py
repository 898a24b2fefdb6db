"""Rounding of the numbers in a baseline file to the digits that stay the same from run to run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf import metrics as catalogue

if TYPE_CHECKING:
    from pytest_gpuperf.records import Accuracy, MetricValue

TIME_DIGITS = 5
"""Digits of a time: sessions of one code agree to some 0.02 %, and four digits would be as coarse."""
_ACCURACY_DIGITS = 4
_RAW_DIGITS = 4
_STATE_DIGITS = 3
_COUNT_DIGITS = 6


def round_to_digits(value: float, digits: int) -> float:
    """Round to significant digits."""
    return round(value, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0.0


def stored_accuracy(accuracy: Accuracy) -> Accuracy:
    """Return an accuracy with rounded errors."""
    rounded = {
        name: round_to_digits(value, _ACCURACY_DIGITS)
        for name, value in msgspec.structs.asdict(accuracy).items()
        if isinstance(value, float)
    }
    return msgspec.structs.replace(accuracy, **rounded, others=tuple(map(stored_accuracy, accuracy.others)))


def round_counter(name: str, value: MetricValue) -> MetricValue:
    """Round a counter by its tier: one that moves from run to run keeps few digits."""
    if isinstance(value, str):
        return value
    metric = catalogue.get(name)
    if metric is None:
        return round_to_digits(value, _RAW_DIGITS)
    if metric.tier is catalogue.Tier.STATE:
        rounded = round_to_digits(value, _STATE_DIGITS)
        return round_to_digits(round(rounded, 2), _STATE_DIGITS) if metric.unit == "%" else rounded
    if metric.tier is catalogue.Tier.EXACT and value == int(value):
        return value
    return round_to_digits(value, _COUNT_DIGITS)
