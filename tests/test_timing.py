"""What of the timing can be tested without a GPU: when a warm-up ends, and what blocks come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_gpuperf.timing.estimate import interquartile_range, trimmed_mean
from pytest_gpuperf.timing.warm_up import until_steady

if TYPE_CHECKING:
    from collections.abc import Callable

times = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=60)


class Blocks:
    """A batch whose blocks take what a function of time says, on a clock of its own."""

    calls = 10

    def __init__(self, time_us: Callable[[float], float]) -> None:
        self.now = 0.0
        self._time_us = time_us

    def run(self) -> float:
        self.now += 0.005
        return self._time_us(self.now)

    def clock(self) -> float:
        return self.now


def test_a_steady_time_ends_the_warm_up_at_once() -> None:
    batch = Blocks(lambda _: 5.0)
    warm_up = until_steady(batch, 3.0, batch.clock)
    assert warm_up.steady
    assert warm_up.seconds == pytest.approx(0.1, abs=0.01)


def test_a_time_that_falls_for_a_second_is_waited_for() -> None:
    batch = Blocks(lambda now: 5.0 if now > 1 else 7.0 - 2 * now)
    warm_up = until_steady(batch, 3.0, batch.clock)
    assert warm_up.steady
    assert warm_up.seconds > 1


def test_a_time_that_never_settles_stops_at_the_cap_and_says_so() -> None:
    batch = Blocks(lambda now: 5.0 * 2**now)
    warm_up = until_steady(batch, 3.0, batch.clock)
    assert not warm_up.steady
    assert warm_up.seconds == pytest.approx(3.0, abs=0.01)
    assert warm_up.launches == pytest.approx(10 * 3.0 / 0.005, abs=10)


@given(times)
def test_the_trimmed_mean_is_scipys(values: list[float]) -> None:
    assert trimmed_mean(values) == pytest.approx(stats.trim_mean(values, 0.2))


@given(times)
def test_the_interquartile_range_is_numpys(values: list[float]) -> None:
    low, high = np.quantile(values, [0.25, 0.75])
    assert interquartile_range(values) == pytest.approx(high - low, rel=1e-9, abs=1e-6)


def test_one_slow_block_in_ten_does_not_move_the_mean() -> None:
    assert trimmed_mean([5.0] * 9 + [50.0]) == 5.0
