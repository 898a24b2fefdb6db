"""Rounding of the numbers in a baseline file to the digits that stay the same from run to run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf import metrics as catalogue

if TYPE_CHECKING:
    from typing import Any

    from pytest_gpuperf.records import Accuracy, MetricValue

TIME_DIGITS = 5
"""Digits of a time: sessions of one code agree to some 0.02 %, and four digits would be as coarse."""
_ACCURACY_DIGITS = 4
_RAW_DIGITS = 4
_STATE_DIGITS = 3
_COUNT_DIGITS = 6


def round_to_digits(value: float, digits: int) -> float | int:
    """Round to significant digits; a whole number becomes an int, which JSON writes shorter."""
    if value == 0:
        return 0
    rounded = round(value, digits - 1 - math.floor(math.log10(abs(value))))
    return int(rounded) if rounded == int(rounded) else rounded


def stored_accuracy(accuracy: Accuracy) -> dict[str, Any]:
    """Return the JSON object of an accuracy with rounded errors."""
    stored: dict[str, Any] = msgspec.to_builtins(accuracy)
    if accuracy.others:
        stored["others"] = list(map(stored_accuracy, accuracy.others))
    return {
        name: round_to_digits(value, _ACCURACY_DIGITS) if isinstance(value, float) else value
        for name, value in stored.items()
    }


def round_counter(name: str, value: MetricValue) -> MetricValue | int:
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
        return int(value)
    return round_to_digits(value, _COUNT_DIGITS)
