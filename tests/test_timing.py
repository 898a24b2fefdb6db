"""What of the timing can be tested without a GPU: when it ends, and what blocks come to."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.timing import timer
from pytest_gpuperf.timing.estimate import interquartile_range, trimmed_mean
from pytest_gpuperf.timing.warm_up import until_steady

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.records import Timing, TimingMode

times = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=60)


class Blocks:
    """A batch whose blocks take what a function of time says, on a clock of its own."""

    calls = 10

    def __init__(self, time_us: Callable[[float], float], block_s: float = 0.005) -> None:
        self.now = 0.0
        self._time_us = time_us
        self._block_s = block_s

    def run(self) -> float:
        self.now += self._block_s
        return self._time_us(self.now)

    def clock(self) -> float:
        return self.now


def test_a_steady_time_ends_the_warm_up_after_two_windows() -> None:
    batch = Blocks(lambda _: 5.0)
    warm_up = until_steady(batch, 3.0, batch.clock)
    assert warm_up.steady
    assert warm_up.seconds == pytest.approx(0.2, abs=0.011)
    assert warm_up.launches == pytest.approx(10 * 0.2 / 0.005, abs=20)


def test_a_time_that_drifts_by_eight_per_cent_over_a_second_is_waited_for() -> None:
    batch = Blocks(lambda now: 5.0 * (1 + 0.08 * min(now, 1.0)))
    warm_up = until_steady(batch, 3.0, batch.clock)
    assert warm_up.steady
    assert warm_up.seconds > 1


def test_noise_that_evens_out_within_a_window_is_steady() -> None:
    noise = itertools.cycle([4.9, 5.1])
    batch = Blocks(lambda _: next(noise))
    assert until_steady(batch, 3.0, batch.clock).seconds < 0.5


def test_blocks_longer_than_a_window_are_compared_one_by_one() -> None:
    batch = Blocks(lambda _: 5.0, block_s=0.7)
    warm_up = until_steady(batch, 3.0, batch.clock)
    assert (warm_up.steady, warm_up.launches) == (True, 20)


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


def timed(
    monkeypatch: pytest.MonkeyPatch, blocks: Sequence[float], mode: TimingMode, budget_s: float = 1e-9
) -> Timing:
    """What a timer makes of blocks that take what is given, again and again."""
    values = itertools.cycle(blocks)
    batch = Blocks(lambda _: next(values))
    monkeypatch.setattr(timer.Timer, "_batch", lambda *_: (batch, mode, ""))
    monkeypatch.setattr(timer, "until_steady", lambda *_: None)
    monkeypatch.setattr(timer, "time", SimpleNamespace(perf_counter=batch.clock))
    return timer.Timer(1, budget_s, lambda: None).time(lambda: None, mode=mode)


@pytest.mark.parametrize(
    "blocks", [[-0.01], [0.0], [-0.3, 0.2], [0.4, -0.3]], ids=["below 0", "0", "noise below 0", "noise"]
)
def test_a_cold_time_that_is_lost_in_the_flushes_is_refused(
    monkeypatch: pytest.MonkeyPatch, blocks: list[float]
) -> None:
    with pytest.raises(GpuperfError, match=r"too short to be timed cold.*use mode='hot'"):
        timed(monkeypatch, blocks, "cold")


def test_single_cold_blocks_below_0_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    timing = timed(monkeypatch, [1.0] * 9 + [-0.5], "cold")
    assert (timing.time_us, min(timing.blocks_us)) == (1.0, -0.5)


def test_a_restless_hot_time_is_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert timed(monkeypatch, [1.0, 9.0], "hot").spread_pct == pytest.approx(160)


def test_ten_blocks_are_measured_however_short_the_budget_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(timed(monkeypatch, [1.0], "hot").blocks_us) == 10


def test_the_budget_is_seconds_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = timed(monkeypatch, [1.0], "hot", budget_s=0.2).blocks_us
    assert len(blocks) == pytest.approx(math.ceil(0.2 / 0.005), abs=1)
