from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.judge import times
from pytest_gpuperf.judge.counters import compare_counters
from pytest_gpuperf.records import Measurement, MetricValue
from pytest_gpuperf.records.baseline import MeasurementBaseline, Session, TimeBaseline
from run_builders import in_turn, measured, origin_of, profile

if TYPE_CHECKING:
    from pytest_gpuperf.judge.times import BaselineComparison


def expected(
    *times_us: float, counters: dict[str, MetricValue] | None = None, kernels: tuple[str, ...] = ()
) -> MeasurementBaseline:
    sessions = tuple(Session(run=f"run{i}", time_us=time) for i, time in enumerate(times_us))
    return MeasurementBaseline(
        time=TimeBaseline(mode="hot", sessions=sessions) if sessions else None,
        counters=counters or {},
        kernels=kernels,
    )


def compare(measurement: Measurement, known: MeasurementBaseline) -> BaselineComparison:
    """Compare a measurement with its baseline, by the screen and by its counters."""
    judgement = times.judgement_of(measurement, known, origin_of("run0", "run1"), 0.0)
    time = judgement.time if judgement is not None else None
    return times.compare_time(measurement, known, compare_counters(measurement, known), time)


def counter(name: str, baseline: MetricValue, actual: MetricValue) -> BaselineComparison:
    return compare(measured(None, {name: actual}), expected(counters={name: baseline}))


def test_time_is_compared_with_the_mean_over_the_sessions() -> None:
    comparison = compare(measured(11.0), expected(9.95, 10.05))
    assert comparison.time is not None
    assert comparison.time.decision.change_pct == pytest.approx(10.0, abs=0.01)
    assert comparison.moved


def test_times_of_another_mode_are_not_compared() -> None:
    comparison = compare(measured(99.0, mode="queued"), expected(1.0))
    assert comparison.time is None
    assert comparison.not_compared == "the time was taken queued, the baseline's hot: not compared"


@pytest.mark.parametrize(
    ("name", "baseline", "actual"),
    [
        ("registers_per_thread", 32, 33.0),
        ("theoretical_occupancy", 100, 93.75),
        ("shared_memory_per_block", 65536, 65537.0),
        ("kernels", 1, 2.0),
        ("local_spill_instructions", 0, 8.0),
    ],
)
def test_any_worsening_of_an_exact_counter_is_a_regression(
    name: str, baseline: MetricValue, actual: MetricValue
) -> None:
    (change,) = counter(name, baseline, actual).worse_exact
    assert (change.metric, change.worse) == (name, True)


@pytest.mark.parametrize(
    ("name", "baseline", "actual"),
    [
        ("registers_per_thread", 32, 31.0),
        ("grid_size", 10, 20.0),
        ("occupancy_limiter", "warps", "registers"),
    ],
)
def test_exact_counter_that_did_not_worsen_is_only_shown(
    name: str, baseline: MetricValue, actual: MetricValue
) -> None:
    comparison = counter(name, baseline, actual)
    assert len(comparison.counters.changes) == 1
    assert comparison.worse_exact == ()


def test_faster_kernel_may_pay_with_registers() -> None:
    known = expected(5.3, counters={"registers_per_thread": 32})
    now = in_turn(measured(2.0, {"registers_per_thread": 40.0}), -0.9, -0.9, sessions=("run0",))
    faster = compare(now, known)
    assert ([change.metric for change in faster.counters.changes], faster.worse_exact) == (
        ["registers_per_thread"],
        (),
    )
    assert compare(measured(5.3, {"registers_per_thread": 40.0}), known).worse_exact


def test_other_kernel_may_pay_with_registers() -> None:
    known = expected(counters={"registers_per_thread": 32}, kernels=("square",))
    comparison = compare(measured(None, {"registers_per_thread": 40.0}, "square_v2"), known)
    assert (len(comparison.counters.changes), comparison.worse_exact) == (1, ())


def test_occupancy_limit_that_does_not_limit_is_only_shown() -> None:
    comparison = counter("occupancy_limit.shared_mem", 28, 20.0)
    assert (len(comparison.counters.changes), comparison.worse_exact) == (1, ())


@pytest.mark.parametrize(
    ("name", "baseline", "actual", "shown"),
    [
        ("instructions", 1000, 1001.0, False),
        ("instructions", 1000, 1001.1, True),
        ("grid_size", 1000000, 1000010.0, False),
        ("grid_size", 1000000, 1000010.9, True),
        ("memory_throughput", 10, 11.0, False),  # 10 %, but not more than a point
        ("memory_throughput", 10, 8.9, True),
        ("memory_throughput", 80, 81.5, False),  # over a point, but less than 2 %
        ("memory_throughput", 80, 82.0, True),
        ("stall.barrier", 0, 0.9, False),
        ("stall.barrier", 0, 1.1, True),
        ("dram_bytes", 1e6, 1.02e6, False),
        ("dram_bytes", 1e6, 0.98e6, False),
        ("dram_bytes", 1e6, 1.021e6, True),
        ("duration_us", 0.5, 0.52, True),  # only values in % are compared in points
        ("some__raw.metric", 100, 103.0, True),
    ],
)
def test_counter_is_shown_beyond_the_tolerance_of_its_tier(
    name: str, baseline: float, actual: float, shown: bool
) -> None:
    comparison = counter(name, baseline, actual)
    assert bool(comparison.counters.changes) is shown
    assert comparison.worse_exact == ()


def read_by_sessions(
    number: int,
    actual: float,
    seen: tuple[float, float] | tuple[()] = (),
    *,
    baseline: float = 100_000,
    name: str = "instructions",
) -> BaselineComparison:
    """Compare a count of work with a baseline of this many sessions; `seen` is their range if they differ."""
    known = msgspec.structs.replace(
        expected(counters={name: baseline}),
        counters_sessions=number,
        counters_range={name: seen} if seen else {},
    )
    return compare(measured(None, {name: actual}), known)


@pytest.mark.parametrize(("actual", "shown"), [(100_000.9, False), (100_002.0, True), (99_998.0, True)])
def test_count_with_agreeing_sessions_has_only_the_rounding_as_tolerance(actual: float, shown: bool) -> None:
    comparison = read_by_sessions(2, actual)
    assert bool(comparison.counters.changes) is shown
    assert comparison.worse_exact == ()
    assert not read_by_sessions(1, actual).counters.changes


@pytest.mark.parametrize(("actual", "same"), [(100_099.9, True), (100_100.0, False)])
def test_tiny_count_change_is_the_same_work(actual: float, *, same: bool) -> None:
    assert read_by_sessions(2, actual).counters.same_work is same


def test_tiny_change_is_not_shown_as_zero() -> None:
    (change,) = read_by_sessions(2, 100_002.0).counters.changes
    assert str(change) == "instructions 100000 -> 100002 (+0.002 %)"


@pytest.mark.parametrize(
    ("seen", "actual", "shown"),
    [
        ((99_800, 100_000), 100_599.0, False),
        ((99_800, 100_000), 99_401.0, False),
        ((99_800, 100_000), 100_601.0, True),
        ((100_000, 99_800), 100_599.0, False),
        # A range of 0.01 % does not lower the tolerance of 0.1 %.
        ((99_990, 100_000), 100_099.0, False),
        ((99_990, 100_000), 100_101.0, True),
        # However large the range, a count may not move by more than a counter that depends on clocks.
        ((60_000, 100_000), 101_999.0, False),
        ((60_000, 100_000), 102_001.0, True),
    ],
)
def test_count_with_differing_sessions_may_move_by_three_ranges(
    seen: tuple[float, float], actual: float, shown: bool
) -> None:
    assert bool(read_by_sessions(2, actual, seen).counters.work) is shown


@pytest.mark.parametrize(
    ("sessions", "seen", "actual", "shown", "fails"),
    [
        (1, (), 0.05, True, True),
        (2, (), 1.0, True, True),
        (2, (0, 5), 15.0, False, False),
        (2, (0, 5), 16.0, True, False),
    ],
)
def test_count_above_zero_fails_if_no_session_saw_any(
    sessions: int, seen: tuple[float, float] | tuple[()], actual: float, shown: bool, fails: bool
) -> None:
    comparison = read_by_sessions(sessions, actual, seen, baseline=0, name="local_spill_instructions")
    assert (bool(comparison.counters.work), bool(comparison.worse_exact)) == (shown, fails)


def test_changed_kernels_are_named() -> None:
    now = measured(None, {}, "square_v2", "reduce")
    assert (
        compare(now, expected(kernels=("square", "reduce"))).counters.kernels
        == "now runs square_v2; no longer runs square"
    )


def by_cupti(counters: dict[str, MetricValue]) -> Measurement:
    read = msgspec.structs.replace(profile(counters), source="cupti", cache_control="none")
    return Measurement(profile=read)


def test_counters_on_which_readers_agree_are_compared() -> None:
    known: dict[str, MetricValue] = {
        "registers_per_thread": 32,
        "instructions": 100,
        "achieved_occupancy": 80.0,
        "l2_hit_rate": 20.0,
    }
    read = by_cupti({name: float(value) * 1.25 for name, value in known.items()})
    comparison = compare(read, expected(counters=known))
    moved = {change.metric for change in comparison.counters.changes}
    assert moved == known.keys() - {"l2_hit_rate"}
    assert [change.metric for change in comparison.worse_exact] == ["registers_per_thread"]
    assert comparison.counters.compared
    assert comparison.counters.read_otherwise == "counters were read by cupti/none, the baseline's by ncu/all"


def test_counters_read_in_the_same_way_are_compared() -> None:
    known = msgspec.structs.replace(expected(counters={"l2_hit_rate": 20.0}), counters_by="cupti/none")
    comparison = compare(by_cupti({"l2_hit_rate": 90.0}), known)
    assert [change.metric for change in comparison.counters.changes] == ["l2_hit_rate"]
    assert comparison.counters.read_otherwise == ""


@pytest.mark.parametrize(
    ("launches", "regex", "said"),
    [
        (
            "last",
            "gemm",
            "counters are of launches=last of kernels='gemm', the baseline's of launches=first of ",
        ),
        ("first", "", "counters are of launches=first of all kernels, the baseline's of launches=first of k"),
        ("", "gemm", "counters are of launches=all of kernels='gemm', the baseline's of launches=first of "),
        ("first", "gemm", ""),
    ],
)
def test_counters_of_other_launches_are_not_compared(launches: str, regex: str, said: str) -> None:
    counted: dict[str, MetricValue] = {"registers_per_thread": 32, "instructions": 100}
    known = expected(counters=counted, kernels=("square",))
    now = msgspec.structs.replace(
        profile({"registers_per_thread": 64.0, "instructions": 200.0}, "square"),
        launches=launches,
        regex=regex,
    )
    of_first = msgspec.structs.replace(known, launches="first", regex="gemm")
    comparison = compare(Measurement(profile=now), of_first)
    assert comparison.counters.chosen_otherwise.startswith(said)
    assert comparison.moved == comparison.counters.compared == (not said)
    # The launches of such a baseline are not known.
    assert compare(Measurement(profile=now), known).moved


def test_kernels_found_by_another_regex_are_shown_as_exchanged() -> None:
    known = expected(counters={"registers_per_thread": 32}, kernels=("square",))
    of_square = msgspec.structs.replace(known, launches="all", regex="square")
    now = msgspec.structs.replace(profile({"registers_per_thread": 64.0}, "square_v2"), regex="square_v2")
    comparison = compare(Measurement(profile=now), of_square)
    assert comparison.counters.kernels == "now runs square_v2; no longer runs square"
    assert [change.metric for change in comparison.counters.changes] == ["registers_per_thread"]
    assert not comparison.worse_exact


def test_unavailable_counters_are_not_compared() -> None:
    now = Measurement(profile=profile({}, unavailable="no ncu"))
    assert not compare(now, expected(counters={"kernels": 1}, kernels=("square",))).moved


@given(st.floats(0.01, 1e6))
def test_measurement_equals_itself(time_us: float) -> None:
    assert not compare(measured(time_us), expected(time_us)).moved
