from __future__ import annotations

import msgspec
import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from judging import verdict
from pytest_gpuperf.judge.counters import LEFT_OUT, CounterComparison, compare_counters
from pytest_gpuperf.judge.result import Finding, Status
from pytest_gpuperf.records import Measurement, MetricValue, Trace, Workload
from pytest_gpuperf.records.baseline import MeasurementBaseline, Session, TestBaseline, TimeBaseline
from run_builders import in_turn, measured, profile, record, timing

compare = compare_counters


def expected(
    *, counters: dict[str, MetricValue] | None = None, kernels: tuple[str, ...] = ()
) -> MeasurementBaseline:
    return MeasurementBaseline(counters=counters or {}, kernels=kernels)


def counter(name: str, baseline: MetricValue, actual: MetricValue) -> CounterComparison:
    return compare(measured(None, {name: actual}), expected(counters={name: baseline}))


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
        ("occupancy_limit.shared_mem", 28, 20.0),
    ],
)
def test_exact_counter_is_shown_if_not_worse(name: str, baseline: MetricValue, actual: MetricValue) -> None:
    comparison = counter(name, baseline, actual)
    assert len(comparison.changes) == 1
    assert comparison.worse_exact == ()


def test_faster_kernel_may_pay_with_registers() -> None:
    time = TimeBaseline(mode="hot", sessions=(Session(run="r", time_us=5.3),))
    known = MeasurementBaseline(time=time, counters={"registers_per_thread": 32})
    faster = in_turn(measured(2.0, {"registers_per_thread": 40.0}), -0.9, -0.9, sessions=("r",))
    baseline = TestBaseline(measurements={"main": known})
    assert verdict(record(main=faster), baseline).status is Status.IMPROVED
    same = measured(5.3, {"registers_per_thread": 40.0})
    assert verdict(record(main=same), baseline).status is Status.REGRESSED


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
    assert bool(comparison.changes) is shown
    assert comparison.worse_exact == ()


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
    moved = {change.metric for change in comparison.changes}
    assert moved == known.keys() - {"l2_hit_rate"}
    assert [change.metric for change in comparison.worse_exact] == ["registers_per_thread"]
    assert comparison.remarks == (
        Finding(Status.PASS, f"counters were read by cupti/none, the baseline's by ncu/all: {LEFT_OUT}"),
    )


def test_counters_read_in_the_same_way_are_compared() -> None:
    known = msgspec.structs.replace(expected(counters={"l2_hit_rate": 20.0}), counters_by="cupti/none")
    comparison = compare(by_cupti({"l2_hit_rate": 90.0}), known)
    assert [change.metric for change in comparison.changes] == ["l2_hit_rate"]
    assert comparison.remarks == ()


@pytest.mark.parametrize(
    ("launches", "regex", "said"),
    [
        ("last", "gemm", "counters are of launches=last of kernels='gemm', the baseline's of launches=first"),
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
    assert "".join(remark.line for remark in comparison.remarks).startswith(said)
    assert bool(comparison.changes) is (not said)
    # The launches of such a baseline are not known.
    assert compare(Measurement(profile=now), known).changes


@pytest.mark.parametrize(("regex", "fails"), [("", False), ("square_v2", True)])
def test_kernels_are_exchanged_if_all_are_read(regex: str, *, fails: bool) -> None:
    known = expected(counters={"registers_per_thread": 32}, kernels=("square",))
    of_square = msgspec.structs.replace(known, launches="all", regex="square")
    now = msgspec.structs.replace(profile({"registers_per_thread": 64.0}, "square_v2"), regex=regex)
    comparison = compare(Measurement(profile=now), of_square)
    assert [remark.status for remark in comparison.remarks] == [Status.INVALID] * fails
    assert comparison.kernels == ("" if fails else "now runs square_v2; no longer runs square")
    assert not comparison.worse_exact


@pytest.mark.parametrize(("launches", "fails"), [(1, False), (2, True)])
def test_choice_of_kernels_that_were_all_can_go(launches: int, *, fails: bool) -> None:
    known = expected(counters={"registers_per_thread": 32, "kernels": 1}, kernels=("square",))
    of_square = msgspec.structs.replace(known, launches="all", regex="square")
    now = profile({"registers_per_thread": 32.0, "kernels": float(launches)}, "square")
    found = compare(Measurement(profile=now), of_square).remarks
    assert [remark.status for remark in found] == [Status.INVALID] * fails


def test_counters_of_nothing_are_not_compared() -> None:
    assert compare(Measurement(), expected(counters={"sm_throughput": 1})) == CounterComparison()


def traced(before: int, now: int, name: str = "launches") -> CounterComparison:
    measurement = Measurement(trace=Trace(**{name: now}))  # type: ignore[arg-type]
    return compare_counters(measurement, MeasurementBaseline(trace={name: before}))


@pytest.mark.parametrize(
    ("before", "now", "change", "worse"), [(4, 5, 25.0, True), (5, 4, -20.0, False), (0, 1, None, True)]
)
def test_traced_count_changes_in_percent(before: int, now: int, change: float | None, *, worse: bool) -> None:
    (found,) = traced(before, now).changes
    assert found.change_pct == (None if change is None else pytest.approx(change))
    assert found.worse is worse
    assert bool(traced(before, now).worse_exact) is worse


@pytest.mark.parametrize(("now", "fails"), [(12.5, True), (12.0, False), (11.0, False), (None, False)])
def test_more_memory_fails_like_a_register(now: float | None, *, fails: bool) -> None:
    sessions = (
        Session(run="r", time_us=5.3, peak_memory_mb=8.0),
        Session(run="s", time_us=5.3, peak_memory_mb=12.0),
    )
    known = MeasurementBaseline(time=TimeBaseline(mode="hot", sessions=sessions))
    found = verdict(
        record(main=Measurement(timing=replace(timing(5.3), work=Workload(peak_memory_mb=now)))),
        TestBaseline(measurements={"main": known}),
    )
    assert found.fails is fails
    assert not fails or found.findings[0].line == (
        "peak_memory_mb 12.5 is worse than the baseline 12 (no tolerance)"
    )


@pytest.mark.parametrize(
    ("now", "time_us", "warns"), [(1100.0, 5.3, True), (900.0, 5.3, False), (1100.0, 6.0, False)]
)
def test_only_more_work_at_the_same_time_warns_early(now: float, time_us: float, *, warns: bool) -> None:
    times = TimeBaseline(mode="hot", sessions=(Session(run="r", time_us=5.3),))
    known = TestBaseline(
        measurements={"main": replace(expected(counters={"instructions": 1000.0}), time=times)}
    )
    found = verdict(record(main=measured(time_us, {"instructions": now})), known)
    lines = [finding.line for finding in found.findings]
    assert any(line.endswith("at the same time: an early warning") for line in lines) is warns


@pytest.mark.parametrize(
    ("name", "before", "now", "shown"),
    [
        ("dram_bytes", 524e6, 1048e6, "dram_bytes 524 -> 1048 MB (+100.0 %)"),
        ("instructions", 100, 200, "instructions 100 -> 200 (+100.0 %)"),
        ("instructions", 1.5e6, 3e6, "instructions 1.50 -> 3 M (+100.0 %)"),
        ("l2_hit_rate", 80, 40, "l2_hit_rate 80 -> 40 % (-40.0 points)"),
        ("registers_per_thread", 32, 40, "registers_per_thread 32 -> 40 (+25.0 %)"),
        ("occupancy_limiter", "warps", "registers", "occupancy_limiter warps -> registers"),
    ],
)
def test_counters_are_shown_in_units_that_people_use(
    name: str, before: MetricValue, now: MetricValue, shown: str
) -> None:
    assert counter(name, before, now).details == (shown,)


def test_four_largest_counters_are_shown_behind_the_kernels() -> None:
    names = ("dram_bytes", "instructions", "registers_per_thread", "l2_hit_rate", "achieved_occupancy")
    known = MeasurementBaseline(counters=dict.fromkeys(names, 100.0), kernels=("old",))
    now = {name: 100.0 * (1.1 + at / 10) for at, name in enumerate(names)}
    kernels, *shown = compare_counters(measured(None, now), known).details
    assert kernels == "now runs square_kernel; no longer runs old"
    assert [line.partition(" ")[0] for line in shown] == list(reversed(names[1:]))


def test_failure_says_nothing_twice() -> None:
    known = expected(counters={"registers_per_thread": 24, "grid_size": 10})
    now = measured(None, {"registers_per_thread": 32.0, "grid_size": 20.0})
    found = verdict(record(a=now, b=now), TestBaseline(measurements={"a": known, "b": known}))
    assert found.message() == snapshot("""\
gpuperf: a: registers_per_thread 32 is worse than the baseline 24 (no tolerance)
    grid_size 10 -> 20 (+100.0 %)
gpuperf: b: registers_per_thread 32 is worse than the baseline 24 (no tolerance)
    grid_size 10 -> 20 (+100.0 %)
    accept it with: gpuperf baseline accept\
""")
