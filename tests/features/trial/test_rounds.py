"""Intervals of times and ratios over the rounds of a trial."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.features.trial.record import Interval
from pytest_gpuperf.features.trial.rounds import mean_bounds, time_bounds

TIMES = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=8)


@given(TIMES)
def test_time_lies_between_its_bounds(rounds: list[float]) -> None:
    found = time_bounds(rounds)
    assert found.low < found.value < found.high
    assert min(rounds) * (1 - 1e-5) <= found.value <= max(rounds) * (1 + 1e-5)


def test_equal_rounds_keep_the_guessed_spread() -> None:
    found = time_bounds([10.0] * 4)
    assert 0.05 < 100 * (found.high / found.value - 1) < 0.5


def test_mean_of_independent_ratios_is_narrower() -> None:
    one = Interval(value=2.0, low=1.9, high=2.0**2 / 1.9)
    found = mean_bounds([one, one])
    assert found.value == pytest.approx(2.0)
    assert math.log(found.high / found.low) == pytest.approx(
        math.log(one.high / one.low) / math.sqrt(2), rel=1e-4
    )
