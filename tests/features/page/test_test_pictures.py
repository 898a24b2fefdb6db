"""Pictures of the measurements of one test."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from present import present
from pytest_gpuperf.features.page import measurement_pictures as pictures_module
from pytest_gpuperf.features.page.picture import Picture, Points, Polyline
from pytest_gpuperf.features.page.svg_renderer import svg
from pytest_gpuperf.judge.times import Origin, screen
from pytest_gpuperf.records import Measurement, MetricValue
from pytest_gpuperf.records.baseline import MeasurementBaseline, RunNote, Session, TimeBaseline
from run_builders import measured, timing

COUNTERS: dict[str, MetricValue] = {
    "flops.fp32": 1e9,
    "dram_bytes": 1e8,
    "duration_us": 200.0,
    "ceiling.dram": 4000.0,
}
BASELINE = MeasurementBaseline(
    time=TimeBaseline(
        mode="hot", sessions=(Session(run="a", time_us=5.0, spread_pct=1.0), Session(run="b", time_us=5.1))
    ),
    counters={**COUNTERS, "duration_us": 250.0},
)


def pictures_of(measurement: Measurement, **known: Any) -> dict[str, Picture]:
    """Return the pictures of a measurement by title."""
    others: dict[str, Any] = {"baseline": None, "runs": {}, "comparison": None}
    return {one.title: one for one in pictures_module.pictures_of(measurement, **(others | known))}


def with_blocks(times: list[float], clocks: list[float]) -> Measurement:
    timed = msgspec.structs.replace(timing(5.3), blocks_us=tuple(times), blocks_mhz=tuple(clocks))
    return Measurement(timing=timed)


def pictures(now: Measurement, cards: tuple[str, str] = ("GPU-1", "GPU-1")) -> dict[str, Picture]:
    runs = {run: RunNote(gpu_uuid=card) for run, card in zip("ab", cards, strict=True)}
    comparison = screen(present(now.timing), present(BASELINE.time), Origin("GPU-1", runs=runs))
    return pictures_of(now, baseline=BASELINE, runs=runs, comparison=comparison)


def points(picture: Picture) -> dict[str, Points]:
    return {mark.name: mark for mark in picture.marks if isinstance(mark, Points)}


def test_unmeasured_values_have_no_picture() -> None:
    assert pictures_of(Measurement()) == {}
    assert pictures_of(measured(5.3)) == {}


def test_new_session_comes_last_with_its_interval() -> None:
    new = points(pictures(measured(9.0))["Time of each session"])["this run"]
    assert (new.x, new.y, new.tone) == ((3,), (9.0,), "now")
    assert new.low[0] < 9.0 < new.high[0]


def test_sessions_of_each_card_have_a_colour() -> None:
    found = points(pictures(measured(5.0), ("GPU-1", "GPU-2"))["Time of each session"])
    assert [found[name].x for name in ("card GPU-1", "card GPU-2", "this run")] == [(1,), (2,), (3,)]
    assert found["card GPU-1"].tone != found["card GPU-2"].tone


def test_clock_is_the_mirror_image_of_the_time_it_explains() -> None:
    picture = pictures_of(with_blocks([5.0, 5.5], [2000.0, 1800.0]))["Blocks of this run"]
    time, clock = (mark.y for mark in picture.marks if isinstance(mark, Polyline))
    assert time[0] < 0 < clock[0]
    assert (picture.y.high or 0) > 5


def test_noise_does_not_fill_the_time_axis() -> None:
    picture = pictures_of(with_blocks([5.0, 5.0001], []))["Blocks of this run"]
    assert (picture.y.low, picture.y.high) == pytest.approx((-0.55, 0.55))


def test_counters_read_in_another_way_are_not_compared() -> None:
    now, other = measured(5.0, COUNTERS), msgspec.structs.replace(BASELINE, counters_by="cupti/none")
    assert "DRAM before" in points(pictures_of(now, baseline=BASELINE)["Roofline"])
    assert "DRAM before" not in points(pictures_of(now, baseline=other)["Roofline"])


_TIMES = st.floats(0.1, 1e5)
_COUNTERS = st.dictionaries(
    st.sampled_from(
        [
            *("dram_bytes", "l2_sent_bytes", "l1_writeback_bytes", "duration_us", "flops.fp32"),
            *("flops.tensor_fp16", "ceiling.dram", "ceiling.l2", "ceiling.fp32", "ceiling.tensor_fp16"),
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
    found = pictures_of(measurement, baseline=baseline, comparison=comparison)
    assert {"Time of each session", "Blocks of this run"} <= set(found)
    for picture in found.values():
        assert not re.search(r'="[^"]*\b(nan|inf)\b', svg(picture))
