"""Intervals of ratios of a trial."""

from __future__ import annotations

import math

import pytest

from pytest_gpuperf.features.trial.ratio_intervals import mean_bounds
from pytest_gpuperf.features.trial.record import Interval


def test_mean_of_independent_ratios_is_narrower() -> None:
    one = Interval(value=2.0, low=1.9, high=2.0**2 / 1.9)
    found = mean_bounds([one, one])
    assert found.value == pytest.approx(2.0)
    assert math.log(found.high / found.low) == pytest.approx(
        math.log(one.high / one.low) / math.sqrt(2), rel=1e-4
    )
