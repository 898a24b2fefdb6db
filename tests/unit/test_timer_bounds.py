"""Bounds of the timer, just inside and just outside, and exact values of its records."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.timing import sm_clock, timer
from pytest_gpuperf.measure.timing.batch import Block
from pytest_gpuperf.measure.timing.timer import disturbed
from pytest_gpuperf.records import Conditions, WarmUp
from run_builders import timing
from timer_bench import WARM_UP, Bench, Blocks, repeating, with_clock

if TYPE_CHECKING:
    from pytest_gpuperf.measure.timing.batch import Batch
    from pytest_gpuperf.records import TimingMode


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


@pytest.mark.parametrize(("noise", "precise"), [(0.000784, True), (0.000785, False)])
def test_time_is_precise_below_a_standard_error_of_three_hundredths_percent(
    bench: Bench, noise: float, *, precise: bool
) -> None:
    """Take values 20 (1 ± noise): the relative standard error of 20 of them is noise / (0.6 √19)."""
    found = bench.time(repeating([20 - 20 * noise, 20 + 20 * noise]), budget_s=0.9)
    assert (len(found.blocks_us) == 20) is precise


def test_at_most_a_hundred_blocks_are_taken(bench: Bench) -> None:
    assert len(bench.time(repeating([1.0, 1.2]), budget_s=100).blocks_us) == 100


@pytest.mark.parametrize(("noise", "run"), [(0.0, 0), (0.01, 12)])
def test_blocks_of_the_warm_up_count(bench: Bench, noise: float, run: int) -> None:
    bench.warmed = [Block(1 - noise), Block(1 + noise)] * 10
    blocks = Blocks(lambda _: 1.0, block_s=1 / 128)
    found = bench.time(blocks, budget_s=2 * 12 / 128)
    assert len(found.blocks_us) == 20 + run
    assert blocks.now == run / 128


@pytest.mark.parametrize(
    ("us", "source", "recorded"),
    [(14.99, "cupti", True), (15.0, "events", True), (149.9, "events", True), (150.0, "events", False)],
)
def test_cupti_times_up_to_thirty_gaps(bench: Bench, us: float, source: str, *, recorded: bool) -> None:
    found = bench.time(repeating([us], recorded_us=us - 0.5))
    assert (found.source, found.us_by("cupti") is not None) == (source, recorded)


def test_fifteen_blocks_are_recorded_of_few_calls(bench: Bench) -> None:
    blocks = repeating([1.1], recorded_us=0.9)
    blocks.calls = 3000
    found = bench.time(blocks)
    assert (len(found.blocks_us), found.calls_per_block) == (15, 25)


@pytest.mark.parametrize(("mode", "gap_us"), [("hot", 0.5), ("cold", 0.5), ("queued", None), ("host", None)])
def test_only_graphs_have_a_launch_gap(bench: Bench, mode: TimingMode, gap_us: float | None) -> None:
    found = bench.time(repeating([5.0]), mode)
    assert (found.launch_gap_us, found.mode) == (gap_us, mode)


@pytest.mark.parametrize(("noise", "refused"), [(0.49, False), (0.5, False), (0.51, True)])
def test_cold_spread_may_be_as_large_as_the_time(bench: Bench, noise: float, *, refused: bool) -> None:
    batch = repeating([1 - noise, 1 + noise])
    if refused:
        with pytest.raises(GpuperfError, match=r"1 µs a call, with a spread of 1\.02 µs"):
            bench.time(batch, "cold")
    else:
        assert bench.time(batch, "cold").spread_pct == pytest.approx(200 * noise)


@pytest.mark.parametrize(
    ("spread_pct", "others", "said"),
    [(1.0, 1, ""), (1.05, 1, "another process was on the GPU, and the blocks spread by 1.1 %"), (9.0, 0, "")],
)
def test_neighbour_disturbs_a_restless_time(spread_pct: float, others: int, said: str) -> None:
    state = Conditions(other_processes=others)
    assert disturbed(replace(timing(), spread_pct=spread_pct, conditions=state)) == said
    assert disturbed(replace(timing(), spread_pct=spread_pct)) == ""


@pytest.mark.parametrize("us", [-0.1, 0.0])
def test_noise_has_no_clock_model(bench: Bench, us: float) -> None:
    """Times by events below 0 say nothing about the clock, though CUPTI has a time."""
    batch = Blocks(lambda _: us, mhz=lambda _: 1400.0 if bench.burn.burns else 2000.0, recorded_us=1.4)
    assert bench.time(batch, "cold", budget_s=1).clock_model is None
    assert bench.burn.burns == 0


def test_clock_model_has_the_scale_of_the_time(bench: Bench) -> None:
    clocked = with_clock(bench, 1400.0)
    batch = Blocks(lambda now: clocked._time_us(now) / 10, mhz=clocked._mhz, recorded_us=8.0)
    found = bench.time(batch, budget_s=1)
    assert (found.source, found.us_by("events"), found.time_us) == ("cupti", 10.0, 8.0)
    assert found.clock_model is not None
    assert found.clock_model.time_us(2000) == pytest.approx(8.0, rel=1e-3)
    assert found.clock_model.sm_clock_share == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize(("budget_s", "burns"), [(0.4, 0), (0.5, 1)])
def test_burn_needs_the_rest_of_the_budget(bench: Bench, budget_s: float, burns: int) -> None:
    """Half of the budget is for the blocks, and a burn takes 0.1 s; these are steady only at its end."""
    clocks = itertools.cycle([1990.0, 2010.0])
    batch = Blocks(lambda now: 100 + now % 0.1, mhz=lambda _: next(clocks), block_s=1 / 32)
    bench.time(batch, budget_s=budget_s)
    assert bench.burn.burns == burns


def test_cupti_is_detached_at_the_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = bench.timer(repeating([1.0]), "hot", 1e-9)
    timed.time(lambda: None, mode="hot")
    assert bench.detached == 1
    assert timed.warm_up(lambda: None) is WARM_UP
    assert bench.detached == 2


def test_last_window_of_a_warm_up_is_kept() -> None:
    times = iter(range(1000))
    batch = Blocks(lambda _: 5.0 + 1e-6 * next(times), block_s=1 / 16)
    kept_us = [block.time_us for block in sm_clock.until_steady(batch, 3.0, batch.clock).steady]
    assert kept_us == pytest.approx([5.000003, 5.000004], abs=1e-9)
    drifting = Blocks(lambda now: 5.0 * 2**now)
    assert sm_clock.until_steady(drifting, 3.0, drifting.clock).steady == ()


@pytest.mark.parametrize(("drift", "steady"), [(1.00499, True), (1.0051, False)])
def test_windows_agree_within_half_a_percent(drift: float, *, steady: bool) -> None:
    batch = Blocks(lambda now: 5.0 if now < 0.15 else 5.0 * drift, block_s=0.125)
    assert sm_clock.until_steady(batch, 0.25, batch.clock).warm_up == WarmUp(
        seconds=0.25, launches=20, steady=steady
    )


@pytest.mark.parametrize(
    ("max_mhz", "steady_mhz", "held"), [(2000.0, 1939.0, True), (2000.0, 1940.0, False), (0.0, 1939.0, False)]
)
def test_clock_below_97_percent_of_the_highest_is_held_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, max_mhz: float, steady_mhz: float, *, held: bool
) -> None:
    found: list[bool] = []

    def at_other_clocks(batch: Batch, burn: object, *, held_back: bool) -> list[Block]:
        found.append(held_back)
        return [Block(100.0, steady_mhz)]

    monkeypatch.setattr(timer, "at_other_clocks", at_other_clocks)
    timed = bench.timer(Blocks(lambda _: 100.0, mhz=lambda _: steady_mhz), "hot", 1)
    timed._max_sm_clock_mhz = max_mhz
    timed.time(lambda: None, mode="hot")
    assert found == [held]
