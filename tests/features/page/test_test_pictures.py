"""Pictures of the measurements of one test."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuperf.features.page.picture import Bars, Line, Picture, Points
from pytest_gpuperf.features.page.pictures import pictures_of
from pytest_gpuperf.judge.origin import Origin
from pytest_gpuperf.judge.screen import screen
from pytest_gpuperf.judge.settlement import compare_restarts
from pytest_gpuperf.records import AgainstTiming, Measurement, MetricValue, Settlement
from pytest_gpuperf.records.baseline import MeasurementBaseline, RunNote, Session, TimeBaseline
from run_builders import H200, measured, timing

COUNTERS: dict[str, MetricValue] = {
    "stall.long_scoreboard": 60.0,
    "stall.wait": 20.0,
    "stall.misc": 0.2,
    "theoretical_occupancy": 50.0,
    "achieved_occupancy": 40.0,
    "occupancy_limiter": "registers",
    "occupancy_limit.registers": 8.0,
    "occupancy_limit.warps": 16.0,
    "occupancy_limit.shared_mem": 12.0,
}
BASELINE = MeasurementBaseline(
    time=TimeBaseline(
        mode="hot", sessions=(Session(run="a", time_us=5.0, spread_pct=1.0), Session(run="b", time_us=5.1))
    ),
    counters={"stall.wait": 35.0, "theoretical_occupancy": 100.0},
)


def with_blocks(times: list[float], clocks: list[float]) -> Measurement:
    timed = msgspec.structs.replace(timing(5.3), blocks_us=tuple(times), blocks_mhz=tuple(clocks))
    return Measurement(timing=timed)


def pictures(now: Measurement, cards: tuple[str, str] = ("GPU-1", "GPU-1")) -> dict[str, Picture]:
    assert now.timing is not None
    assert BASELINE.time is not None
    runs = {run: RunNote(gpu_uuid=card) for run, card in zip("ab", cards, strict=True)}
    comparison = screen(now.timing, BASELINE.time, Origin("GPU-1", runs=runs))
    return pictures_of(now, H200, baseline=BASELINE, runs=runs, comparison=comparison)


def points(picture: Picture) -> dict[str, Points]:
    return {mark.name: mark for mark in picture.marks if isinstance(mark, Points)}


def test_unmeasured_values_have_no_picture() -> None:
    assert pictures_of(Measurement(), H200) == {}
    assert list(pictures_of(measured(5.3), H200)) == []


def test_new_session_comes_last_with_its_interval() -> None:
    new = points(pictures(measured(9.0))["sessions"])["this run"]
    assert (new.x, new.y, new.tone) == ((3,), (9.0,), "now")
    assert new.low[0] < 9.0 < new.high[0]


def test_sessions_of_each_card_have_a_colour() -> None:
    found = points(pictures(measured(5.0), ("GPU-1", "GPU-2"))["sessions"])
    assert [found[name].x for name in ("card GPU-1", "card GPU-2", "this run")] == [(1,), (2,), (3,)]
    assert found["card GPU-1"].tone != found["card GPU-2"].tone


def test_time_and_clock_of_blocks_span_the_same_share() -> None:
    picture = pictures_of(with_blocks([5.0, 5.5], [2000.0, 1800.0]), H200)["blocks"]
    assert picture.right is not None
    spans = [(axis.high - axis.low) / (axis.high + axis.low) for axis in (picture.y, picture.right)]  # type: ignore[operator]
    assert abs(spans[0] - spans[1]) < 1e-3


def test_noise_does_not_fill_the_time_axis() -> None:
    picture = pictures_of(with_blocks([5.0, 5.0001], []), H200)["blocks"]
    assert (picture.y.low, picture.y.high) == (4.9725, 5.0276)
    assert picture.right is None


def test_steady_clock_is_one_level_line() -> None:
    picture = pictures_of(with_blocks([5.0] * 30, [1980.0] * 29 + [1980.1]), H200)["blocks"]
    (clock,) = (mark for mark in picture.marks if isinstance(mark, Line) and mark.right)
    assert clock.x == (1.0, 30.0)


def test_stalls_are_now_and_before_by_size() -> None:
    picture = pictures(measured(5.0, COUNTERS))["stalls"]
    assert picture.y.names == ("long scoreboard", "wait")
    now, before = picture.marks
    assert isinstance(now, Bars)
    assert isinstance(before, Bars)
    assert (now.to, before.to, before.rows) == ((60.0, 20.0), (35.0,), (1,))


def test_counters_read_in_another_way_are_not_compared() -> None:
    baseline = msgspec.structs.replace(BASELINE, counters_by="cupti/none")
    found = pictures_of(measured(5.0, COUNTERS), H200, baseline=baseline)
    assert len(found["stalls"].marks) == 1


def test_occupancy_names_the_limiter_and_lower_limits() -> None:
    picture = pictures(measured(5.0, COUNTERS))["occupancy"]
    assert picture.y.names == ("achieved", "theoretical", "registers (limiter)", "limit of shared memory")
    assert isinstance(picture.marks[0], Bars)
    assert picture.marks[0].to == (40.0, 50.0, 50.0, 75.0)
    assert picture.description == "Achieved 40 %, theoretical 50 %, limited by registers."


def test_several_kernels_have_no_common_limits() -> None:
    picture = pictures_of(measured(5.0, COUNTERS, "a", "b"), H200)["occupancy"]
    assert picture.y.names == ("achieved", "theoretical, least")


def test_restarts_tell_which_side_went_first() -> None:
    against = AgainstTiming(
        ref="main",
        commit="c0ffee12",
        log_ratios=(0.01, 0.02, 0.01, 0.02),
        new_first=(True, False) * 2,
        new_us=5.0,
    )
    comparison = compare_restarts(against)
    found = pictures_of(
        Measurement(settlement=Settlement(how="in turn", against=against)), H200, comparison=comparison
    )
    marks = points(found["restarts"])
    assert marks["new code first"].x == (1, 3)
    assert marks["old code first"].x == (2, 4)


_TIMES = st.floats(0.1, 1e5)
_COUNTERS = st.dictionaries(
    st.sampled_from(
        [
            *("dram_bytes", "l2_sent_bytes", "l1_writeback_bytes", "duration_us", "flops.fp32"),
            *("flops.tensor_fp16", "ceiling.dram", "ceiling.l2", "ceiling.fp32", "ceiling.tensor_fp16"),
            *("stall.wait", "achieved_occupancy", "theoretical_occupancy", "occupancy_limit.warps"),
        ]
    ),
    st.just(0.0) | st.floats(1e-3, 1e18),
)


@settings(max_examples=50)
@given(
    _TIMES,
    st.lists(st.floats(-0.5, 3.0), min_size=2, max_size=30),
    st.lists(st.floats(0, 1e4), max_size=30),
    st.lists(_TIMES, min_size=1, max_size=20),
    _COUNTERS,
    _COUNTERS,
)
def test_any_numbers_make_pictures_of_finite_numbers(
    time_us: float,
    blocks: list[float],
    clocks: list[float],
    stored: list[float],
    now: dict[str, MetricValue],
    before: dict[str, MetricValue],
) -> None:
    timed = msgspec.structs.replace(
        timing(time_us, flops=10**6),
        blocks_us=tuple(block * time_us for block in blocks),
        blocks_mhz=tuple(clocks),
    )
    times = TimeBaseline(
        mode="hot", sessions=tuple(Session(run=str(n), time_us=one) for n, one in enumerate(stored))
    )
    baseline = MeasurementBaseline(time=times, counters=before)
    measurement = msgspec.structs.replace(measured(5.0, now), timing=timed)
    comparison = screen(timed, times, Origin())
    found = pictures_of(measurement, H200, baseline=baseline, comparison=comparison)
    assert {"sessions", "blocks"} <= set(found)
    for picture in found.values():
        assert b"null" not in msgspec.json.encode(picture)
