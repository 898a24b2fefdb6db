"""Timing without a GPU: its end, and the time from its blocks."""

from __future__ import annotations

import itertools
import random
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import stats

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device import memory
from pytest_gpuperf.measure.timing import timer
from pytest_gpuperf.measure.timing.batch import Batch
from pytest_gpuperf.measure.timing.sm_clock import until_steady
from pytest_gpuperf.measure.timing.timer import normalised_us
from pytest_gpuperf.records import ClockModel, Conditions, OtherTime, Timing
from pytest_gpuperf.records.timing import KnownTime
from pytest_gpuperf.statistics.decision import interquartile_range, standard_error, trimmed_mean
from timer_bench import Bench, Blocks, RecordedBlocks, repeating, with_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_gpuperf.measure.timing.batch import Block
    from pytest_gpuperf.measure.timing.sm_clock import WarmUpResult
    from pytest_gpuperf.records import TimingMode, TimingSource

times = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=60)

SOURCES: tuple[TimingSource, ...] = ("events", "cupti", "host")


def test_a_steady_time_ends_the_warm_up_after_two_windows() -> None:
    batch = Blocks(lambda _: 5.0)
    warm_up = until_steady(batch, 3.0, batch.clock).warm_up
    assert warm_up.steady
    assert warm_up.seconds == pytest.approx(0.22, abs=0.011)
    assert warm_up.launches == pytest.approx(10 * 0.22 / 0.005, abs=20)


def test_slow_first_blocks_cost_no_third_window() -> None:
    batch = Blocks(lambda now: 5.8 if now < 0.01 else 5.0)
    assert until_steady(batch, 3.0, batch.clock).warm_up.seconds == pytest.approx(0.22, abs=0.011)


@pytest.mark.parametrize(
    "batch",
    [
        Blocks(lambda now: 5.0 * (1 + 0.08 * min(now, 1.0))),
        Blocks(lambda _: 5.0, mhz=lambda now: 1980 - 300 * min(now, 1.0)),
    ],
    ids=["time", "clock"],
)
def test_warm_up_waits_for_a_drift(batch: Blocks) -> None:
    warm_up = until_steady(batch, 3.0, batch.clock).warm_up
    assert warm_up.steady
    assert warm_up.seconds > 1


def test_noise_within_a_window_is_steady() -> None:
    noise = itertools.cycle([4.9, 5.1])
    batch = Blocks(lambda _: next(noise))
    assert until_steady(batch, 3.0, batch.clock).warm_up.seconds < 0.5


def host_windows(*windows: list[float]) -> WarmUpResult:
    """Warm up by the host's clock with two windows of ten blocks, after two blocks that do not count."""
    times = itertools.chain([9.0, 9.0], *windows, itertools.repeat(1.0))
    batch = Blocks(lambda _: next(times), block_s=0.01001)
    return until_steady(batch, 0.225, batch.clock, by_host=True)


def test_windows_by_the_hosts_clock_agree_within_one_standard_error() -> None:
    def level(mean: float) -> list[float]:
        return [mean - 0.3, mean + 0.3] * 5

    error = 2**0.5 * standard_error(level(20.0))
    assert host_windows(level(20.0), level(20.0 + 0.99 * error)).warm_up.steady
    assert not host_windows(level(20.0), level(20.0 + 1.01 * error)).warm_up.steady


def test_late_block_is_not_the_level_of_its_window() -> None:
    assert host_windows([5.0] * 10, [5.0] * 9 + [9.0]).warm_up.steady
    assert not host_windows([5.0] * 10, [5.2] * 9 + [9.0]).warm_up.steady


@pytest.mark.parametrize(("blocks", "steady"), [(4, False), (5, True)])
def test_noise_of_a_few_long_blocks_is_unknown(blocks: int, *, steady: bool) -> None:
    """The levels of the two windows differ by 1 %, and their blocks spread by 20 %."""
    spread = [-0.5, 0.5, -0.5, 0.5, 0.0][:blocks]
    block_s = 0.1001 / blocks
    times = itertools.chain([9.0], *([mean + one for one in spread] for mean in (5.0, 5.05)), [1.0])
    batch = Blocks(lambda _: next(times), block_s=block_s)
    end = block_s * (1 + 2 * blocks) + 0.001
    assert until_steady(batch, end, batch.clock, by_host=True).warm_up.steady is steady


def noisy(seed: int) -> Callable[[float], float]:
    """Return times that spread by 10 %."""
    noise = random.Random(seed)
    return lambda _: noise.gauss(5.0, 0.5)


def test_noise_of_the_hosts_clock_is_steady() -> None:
    seconds = {True: 0.0, False: 0.0}
    for by_host, seed in itertools.product(seconds, range(20)):
        batch = Blocks(noisy(seed))
        seconds[by_host] += until_steady(batch, 3.0, batch.clock, by_host=by_host).warm_up.seconds / 20
    assert seconds[True] < 0.3
    assert seconds[False] > 0.6


def test_warm_up_of_the_hosts_clock_waits_for_a_drift_above_its_noise() -> None:
    for seed in range(20):
        noise = noisy(seed)
        batch = Blocks(lambda now, noise=noise: noise(now) * (2.0 - 2 * min(now, 0.5)))  # type: ignore[misc]
        assert until_steady(batch, 3.0, batch.clock, by_host=True).warm_up.seconds > 0.5


def test_blocks_longer_than_a_window_are_compared_one_by_one() -> None:
    batch = Blocks(lambda _: 5.0, block_s=0.7)
    warm_up = until_steady(batch, 3.0, batch.clock).warm_up
    assert (warm_up.steady, warm_up.launches) == (True, 20)


def test_windows_of_unequal_numbers_of_blocks_are_compared_by_their_means() -> None:
    batch = Blocks(lambda _: 5.0, block_s=0.03)
    run = batch.run

    def slower_and_slower() -> Block:
        batch._block_s *= 1.2
        return run()

    batch.run = slower_and_slower  # type: ignore[method-assign]
    assert until_steady(batch, 3.0, batch.clock).warm_up.seconds < 0.4


def test_unsteady_time_stops_at_the_cap() -> None:
    batch = Blocks(lambda now: 5.0 * 2 ** (now - 100))
    batch.now = 100.0
    warm_up = until_steady(batch, 3.0, batch.clock).warm_up
    assert not warm_up.steady
    assert warm_up.seconds == pytest.approx(3.0, abs=0.01)
    assert warm_up.launches == pytest.approx(10 * 3.0 / 0.005, abs=10)


@given(times)
def test_trimmed_mean_equals_scipy(values: list[float]) -> None:
    assert trimmed_mean(values) == pytest.approx(stats.trim_mean(values, 0.2))


@given(times)
def test_interquartile_range_equals_numpy(values: list[float]) -> None:
    low, high = np.quantile(values, [0.25, 0.75])
    assert interquartile_range(values) == pytest.approx(high - low, rel=1e-9, abs=1e-6)


def test_standard_error_equals_scipy() -> None:
    values = [5.0, 5.1, 4.9, 5.3, 5.0, 7.0, 4.8, 5.2, 5.1, 5.0]
    assert standard_error(values) == pytest.approx(
        float(stats.mstats.trimmed_stde(np.array(values), (0.2, 0.2)))
    )


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


@pytest.mark.parametrize(
    "blocks", [[-0.01], [0.0], [-0.3, 0.2], [0.4, -0.3]], ids=["below 0", "0", "noise below 0", "noise"]
)
def test_cold_time_below_flush_noise_is_refused(bench: Bench, blocks: list[float]) -> None:
    with pytest.raises(GpuperfError, match=r"too short to be timed cold.*use mode='hot'"):
        bench.time(repeating(blocks), "cold")


def test_l2_is_reset_after_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    @contextmanager
    def reset_after() -> Iterator[None]:
        yield
        steps.append(f"reset after {bench.detached} detached")

    monkeypatch.setattr(memory, "l2_reset_after", reset_after)
    bench.time(repeating([5.0]))
    assert steps == ["reset after 1 detached"]


def test_cold_time_of_cupti_is_accepted(bench: Bench) -> None:
    timing = bench.time(repeating([-0.3, 0.2], recorded_us=1.4), "cold")
    assert (timing.source, timing.time_us) == ("cupti", 1.4)


def test_single_cold_blocks_below_0_are_kept(bench: Bench) -> None:
    timing = bench.time(repeating([1.0] * 9 + [-0.5]), "cold")
    assert (timing.time_us, min(timing.blocks_us)) == (1.0, -0.5)


def test_ten_blocks_are_the_minimum(bench: Bench) -> None:
    assert len(bench.time(repeating([1.0])).blocks_us) == 10


def test_a_noisy_time_takes_half_the_budget(bench: Bench) -> None:
    """Leave the other half for CUPTI and for other clocks."""
    assert len(bench.time(repeating([1.0, 1.2]), budget_s=0.4).blocks_us) == pytest.approx(40, abs=1)


def test_first_timing_measures_the_launch_gap_after_its_blocks(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def step(name: str, value: float) -> float:
        steps.append(name)
        return value

    warm_up = Batch.warm_up

    def counted(call: Batch) -> WarmUpResult:
        steps.append("warm-up")
        return warm_up(call)

    monkeypatch.setattr(Batch, "warm_up", counted)
    monkeypatch.setattr(timer, "launch_gap_us", lambda: step("gap", 0.5))
    timed = bench.timer(Blocks(lambda _: step("block", 1.1)), "hot", 1e-9)
    timed.time(lambda: None, mode="hot")
    timed.time(lambda: None, mode="hot")
    first, second = [at for at, name in enumerate(steps) if name == "warm-up"]
    gap = steps.index("gap")
    assert set(steps[first + 1 : gap]) == {"block"}
    assert gap < second
    assert steps.count("gap") == 1


def test_refused_cupti_leaves_events_and_reason(bench: Bench) -> None:
    timing = bench.time(repeating([1.1]))
    assert (timing.source, timing.time_us, timing.not_recorded) == ("events", 1.1, "there is no GPU")


def test_host_time_never_comes_from_cupti(bench: Bench) -> None:
    timing = bench.time(repeating([9.0], recorded_us=0.9), "host")
    found = [timing.us_by(source) for source in SOURCES]
    assert (timing.source, found, timing.by("cupti")) == ("host", [None, 0.9, 9.0], None)


@pytest.mark.parametrize(
    ("time_us", "single_node", "recorded_us", "expected"),
    [(5.0, True, 4.9, True), (5.0, False, 4.9, False), (5.0, True, None, False), (50.0, True, 49.9, False)],
    ids=["short", "several nodes", "without CUPTI", "long"],
)
def test_cupti_records_short_blocks_in_turn(
    time_us: float, single_node: bool, recorded_us: float | None, expected: bool
) -> None:
    batch = Blocks(lambda _: time_us, recorded_us=recorded_us)
    captured: Any = SimpleNamespace(single_nodes=single_node)
    batch.captured = captured
    assert batch.records_better() == expected
    if expected:
        assert batch.block(recorded=True).time_us == recorded_us


def test_first_replay_does_not_decide_that_a_call_is_long() -> None:
    blocks = repeating([25.0, 15.0, 15.0], recorded_us=14.9)
    captured: Any = SimpleNamespace(single_nodes=True)
    blocks.captured = captured
    assert blocks.records_better()


def test_clock_dependent_share_is_found(bench: Bench) -> None:
    model = bench.time(with_clock(bench, 1400.0), budget_s=1).clock_model
    assert model is not None
    assert model.sm_clock_share == pytest.approx(0.75, abs=0.01)
    assert model.reference_mhz == 2000


def test_still_clock_keeps_no_later_timing_from_trying(bench: Bench) -> None:
    one = bench.timer(with_clock(bench, 2000.0), "hot", 1)
    assert [one.time(lambda: None, mode="hot").clock_model for _ in range(4)] == [None] * 4
    assert bench.burn.burns == 4


def test_a_budget_too_small_for_a_burn_has_no_model(bench: Bench) -> None:
    assert bench.time(with_clock(bench, 1400.0), budget_s=0.1).clock_model is None
    assert bench.burn.burns == 0


HOT_GPU = Conditions(throttle_reasons=("hw_thermal_slowdown",))


def test_throttled_timing_is_repeated(bench: Bench) -> None:
    timing = bench.time(repeating([1.0]), conditions=[HOT_GPU, Conditions()])
    again = ("the clocks were held back (hw_thermal_slowdown)",)
    assert timing.conditions == Conditions(measured_again=again)


def test_a_gpu_that_stays_hot_is_measured_three_times(bench: Bench) -> None:
    timing = bench.time(repeating([1.0]), conditions=[HOT_GPU] * 5)
    assert timing.conditions is not None
    assert len(timing.conditions.measured_again) == 2


@pytest.mark.parametrize(
    ("reference_mhz", "max_mhz", "stored"),
    [(2000.0, 0.0, True), (2060.0, 2000.0, True), (2063.0, 0.0, False), (2000.0, 2070.0, False)],
    ids=["same clock", "near", "far", "held back"],
)
def test_known_model_near_its_clock_spares_the_burn(
    bench: Bench, reference_mhz: float, max_mhz: float, *, stored: bool
) -> None:
    model = ClockModel(cycles=0.7 * 100 * reference_mhz, fixed_us=30.0, reference_mhz=reference_mhz)
    timer_ = bench.timer(with_clock(bench, 1400.0), "hot", 1)
    timer_._max_sm_clock_mhz = max_mhz
    found = timer_.time(lambda: None, mode="hot", known=KnownTime("hot", "events", model))
    assert found.clock_model is not None
    assert (found.clock_model.stored, bench.burn.burns) == (stored, not stored)
    assert (found.clock_model.sm_clock_share == pytest.approx(0.7)) is stored
    assert found.normalised_us == pytest.approx(100, rel=0.03)


def test_known_model_of_much_slower_code_fits_the_new_time(bench: Bench) -> None:
    """Else the run could not be read again: its model would not make its time."""
    model = ClockModel(cycles=700 * 2000.0, fixed_us=300.0, reference_mhz=2000.0)
    found = bench.time(with_clock(bench, 1400.0), budget_s=1, known=KnownTime("hot", "events", model))
    assert found.clock_model is not None
    assert found.clock_model.time_us(2000) == pytest.approx(100)


def short(
    bench: Bench, *elsewhere_us: float, events_us: Sequence[float] = (5.0,), known: KnownTime | None = None
) -> Timing:
    """Return the time of a call of 4.5 µs, which takes other times at several places."""
    times = itertools.cycle(events_us)
    batch = Blocks(lambda _: next(times), recorded_us=4.5, elsewhere_us=elsewhere_us)
    return bench.time(batch, known=known)


def test_short_call_is_timed_at_several_places(bench: Bench) -> None:
    found = short(bench, 4.54, 4.58, 4.62, 4.66, events_us=(5.0, 5.01))
    assert (found.source, len(found.blocks_us)) == ("cupti", 16)
    assert found.time_us == pytest.approx(4.6)
    # That of the blocks at one place.
    assert found.spread_pct == pytest.approx(0.2, rel=0.01)


def test_instruments_belong_to_their_device(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of stamps lie in its memory: on another one their kernel ends the process."""
    made: list[int] = []
    device = [0]
    monkeypatch.setattr(torch.cuda, "current_device", lambda: device[0])
    monkeypatch.setattr(timer, "Stamps", lambda: made.append(device[0]))
    used = bench.timer(repeating([5.0]), "hot", 1e-9)
    for device[0] in (0, 1, 0):
        used.prepare(lambda: None, "hot")
    assert made == [0, 1]


def test_call_that_differs_elsewhere_is_timed_at_its_own_place(bench: Bench) -> None:
    found = short(bench)
    assert (found.source, found.time_us, found.not_recorded) == ("cupti", 4.5, "")


def test_time_that_stays_by_cupti_stays_at_its_places(bench: Bench) -> None:
    """A call of 16 µs that was short in its baseline."""
    known = KnownTime("hot", "cupti", None)
    found = short(bench, 15.8, 16.0, events_us=(17.0,), known=known)
    assert (found.source, round(found.time_us, 3)) == ("cupti", 15.9)


def test_time_by_events_keeps_its_spread_next_to_places(bench: Bench) -> None:
    """A time from half the limit on stays by events, as in its baseline."""
    known = KnownTime("hot", "events", None)
    found = short(bench, 4.5, events_us=(9.8, 10.1, 10.2, 9.9, 10.0, 10.3), known=known)
    assert found.source == "events"
    assert found.spread_pct == pytest.approx(100 * interquartile_range(found.blocks_us) / found.time_us)


@pytest.mark.parametrize(("mode", "source"), [("hot", "events"), ("cold", "cupti")])
def test_model_of_another_kind_is_not_taken(bench: Bench, mode: TimingMode, source: TimingSource) -> None:
    model = ClockModel(cycles=2000.0, fixed_us=3.0, reference_mhz=2000.0)
    batch = Blocks(lambda _: 5.0, mhz=lambda _: 2000.0, recorded_us=4.5)
    found = bench.time(batch, known=KnownTime(mode, source, model))
    assert (found.source, found.clock_model is not None and found.clock_model.stored) == ("cupti", False)


@pytest.mark.parametrize(
    ("usual", "us", "source"),
    [
        ("events", 14.0, "events"),
        ("events", 7.6, "events"),
        ("events", 7.4, "cupti"),
        ("cupti", 16.0, "cupti"),
        ("cupti", 149.0, "cupti"),
        ("cupti", 151.0, "events"),
        ("host", 14.0, "cupti"),
    ],
)
def test_source_near_the_limit_of_15_us_is_the_baselines(
    bench: Bench, usual: TimingSource, us: float, source: str
) -> None:
    found = bench.time(repeating([us], recorded_us=us - 0.5), known=KnownTime("hot", usual, None))
    assert found.source == source


def test_time_of_the_other_source_has_its_own_clock(bench: Bench) -> None:
    """A baseline by events is compared at one clock also if CUPTI is the source, and the clock was low."""
    clocks = itertools.chain([1500.0] * 10, itertools.repeat(2000.0))
    batch = Blocks(lambda _: 5.0, mhz=lambda _: next(clocks), recorded_us=4.5)
    batch.recorded_mhz = 1800.0
    found = replace(bench.time(batch), clock_model=ClockModel(cycles=4500, fixed_us=2.0, reference_mhz=1800))
    other = found.by("events")
    assert other is not None
    assert (found.source, found.sm_clock_mhz) == ("cupti", 1800)
    assert (other.sm_clock_mhz, other.time_us) == (1500, 5.0)
    assert other.other == OtherTime(time_us=4.5, sm_clock_mhz=1800)
    assert other.clock_model is not None
    assert other.clock_model.time_us(1500) == pytest.approx(5.0)
    assert other.normalised_us == pytest.approx(normalised_us(other))
    assert other.by("cupti") == replace(found, normalised_us=pytest.approx(4.5))


def test_power_limit_does_not_repeat_the_timing(bench: Bench) -> None:
    at_limit = Conditions(throttle_reasons=("sw_power_cap",))
    assert bench.time(repeating([1.0]), conditions=[at_limit]).conditions == at_limit


def test_call_that_waits_has_gpu_time_and_host_time(bench: Bench) -> None:
    timing = bench.time(RecordedBlocks(5.0), "kernels")  # type: ignore[arg-type]
    assert (timing.mode, timing.source, timing.time_us, timing.calls_per_block) == ("kernels", "cupti", 5, 4)
    single = timing.single_call
    assert single is not None
    assert (single.busy_us, single.kernels_us, single.host_copies_us) == (5.0, 6.0, 1.5)
    assert (single.host_us, single.host_spread_pct) == (400.0, 25.0)
    assert single.streams[0].launches == 2


def test_reason_for_the_hosts_clock_is_recorded(bench: Bench) -> None:
    blocks = repeating([9.0])
    timed = bench.timer(blocks, "host", 1e-9)
    blocks.not_captured, blocks.not_recorded = "it waits", "torch.profiler holds CUPTI"
    timing = timed.time(lambda: None, mode="auto")
    assert (timing.only_host, timing.not_recorded) == (True, "torch.profiler holds CUPTI")
