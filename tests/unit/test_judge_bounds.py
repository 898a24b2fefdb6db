"""Bounds of the judgement on counters, and the numbers of the gate."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from judging import HINTS, verdict
from pytest_gpuperf.judge.counters import (
    CounterComparison,
    compare_counters,
)
from pytest_gpuperf.judge.gate import Gate
from pytest_gpuperf.judge.limits import parse_limits
from pytest_gpuperf.judge.result import Status, TestVerdict
from pytest_gpuperf.judge.times import BaselineComparison
from pytest_gpuperf.records import ClockModel, Measurement, MetricValue, Timing, Trace
from pytest_gpuperf.records.baseline import (
    Baseline,
    BaselineGpu,
    MeasurementBaseline,
    RunNote,
    Session,
    TestBaseline,
    TimeBaseline,
)
from run_builders import H200, gate_of, measured, profile, record, timing


def compared(name: str, before: MetricValue, now: MetricValue) -> CounterComparison:
    known = MeasurementBaseline(counters={name: before}, kernels=("square_kernel",))
    return compare_counters(measured(None, {name: now}), known, accept=HINTS.accept)


def traced(before: int, now: int, name: str = "launches") -> CounterComparison:
    measurement = Measurement(trace=Trace(**{name: now}))  # type: ignore[arg-type]
    return compare_counters(measurement, MeasurementBaseline(trace={name: before}))


@pytest.mark.parametrize(
    ("before", "now", "change", "worse"), [(4, 5, 25.0, True), (5, 4, -20.0, False), (0, 1, None, True)]
)
def test_traced_count_has_its_change_in_percent(
    before: int, now: int, change: float | None, *, worse: bool
) -> None:
    (found,) = traced(before, now).changes
    assert found.change_pct == (None if change is None else pytest.approx(change))
    assert found.worse is worse
    assert bool(traced(before, now).worse_exact) is worse


@pytest.mark.parametrize(("now", "warns"), [(1100.0, True), (900.0, False)])
def test_only_more_work_is_an_early_warning(now: float, *, warns: bool) -> None:
    findings = compared("instructions", 1000.0, now).findings
    assert bool(findings) is warns
    assert all(found.line.endswith("at the same time: an early warning") for found in findings)


@pytest.mark.parametrize(
    ("share_pct", "unknown_pct", "active", "regex", "count"),
    [
        (0.0, 0.0, 30.0, "", 1),
        (0.0, 5.0, 30.0, "", 0),
        (60.0, 0.0, 0.0, "", 1),
        (60.0, 0.0, 0.0, "gemm", 0),
        (60.0, 0.0, 30.0, "", 0),
        (0.0, 0.0, 0.0, "", 0),
    ],
)
def test_tensor_counter_and_kernel_names_contradict(
    share_pct: float, unknown_pct: float, active: float, regex: str, count: int
) -> None:
    trace = Trace(tensor_core_share_pct=share_pct, tensor_cores_unknown_pct=unknown_pct)
    now = Measurement(trace=trace, profile=replace(profile({"tensor_active": active}), regex=regex))
    assert len(compare_counters(now, MeasurementBaseline()).remarks) == count


def test_nothing_has_moved_without_a_change() -> None:
    assert not BaselineComparison(CounterComparison()).moved
    assert BaselineComparison(CounterComparison(), fell_back=True).moved
    assert BaselineComparison(CounterComparison(kernels="now runs b")).moved


@pytest.mark.parametrize(("blocks", "wider"), [(9, False), (10, True)])
def test_noise_of_ten_blocks_widens_the_interval(blocks: int, *, wider: bool) -> None:
    sessions = tuple(Session(run=f"r{number}", time_us=100.0) for number in range(5))
    known = TestBaseline(
        measurements={"main": MeasurementBaseline(time=TimeBaseline(mode="hot", sessions=sessions))}
    )
    gate = gate_of({"t": known})
    quiet, noisy = (
        gate.compare(("t", "main"), replace(timing(100.0), blocks_us=values))
        for values in ((100.0,) * blocks, tuple(100.0 + 20 * (-1) ** at for at in range(blocks)))
    )
    assert quiet is not None
    assert noisy is not None
    assert (noisy.decision.high_pct > 2 * quiet.decision.high_pct) is wider
    assert (noisy.decision.high_pct == quiet.decision.high_pct) is not wider


MODEL = ClockModel(cycles=200.0, fixed_us=0.4, reference_mhz=1000.0)
"""A time of 0.6 µs at 1000 MHz."""


def at_one_clock(stored: Session, timed: Timing) -> float:
    """Return the clock at which a time is compared with a stored session; 0 for none."""
    time = TimeBaseline(mode="hot", reference_mhz=1000.0, sessions=(stored,))
    known = TestBaseline(measurements={"main": MeasurementBaseline(time=time)})
    found = gate_of({"t": known}).compare(("t", "main"), timed)
    assert found is not None
    return found.at_mhz


def test_times_are_compared_at_one_clock_if_both_have_a_model() -> None:
    stored = Session(run="r", time_us=0.5, normalised_us=0.6, sm_clock_mhz=2000.0, clock_model=MODEL)
    timed = replace(timing(0.5), clock_model=MODEL, blocks_mhz=(2000.0,))
    assert at_one_clock(stored, timed) == 1000
    # The model of the stored session will do.
    assert at_one_clock(stored, replace(timed, clock_model=None)) == 1000
    assert at_one_clock(stored, replace(timed, blocks_mhz=())) == 0
    assert at_one_clock(replace(stored, normalised_us=0.0), timed) == 0
    assert at_one_clock(replace(stored, normalised_us=0.0, clock_model=None), timing(0.5)) == 0
    assert at_one_clock(stored, replace(timed, blocks_us=(-0.5,))) == 0  # as cold blocks may be


def sessions_of(*times_us: float, at_one_clock_us: float = 0.0) -> TestBaseline:
    stored = tuple(
        Session(
            run=f"r{at}",
            time_us=us,
            normalised_us=at_one_clock_us,
            sm_clock_mhz=1000.0 if at_one_clock_us else 0.0,
            clock_model=MODEL if at_one_clock_us else None,
        )
        for at, us in enumerate(times_us)
    )
    time = TimeBaseline(mode="hot", reference_mhz=1000.0 if at_one_clock_us else 0.0, sessions=stored)
    return TestBaseline(measurements={"main": MeasurementBaseline(time=time)})


def test_noise_of_other_tests_counts_as_well() -> None:
    quiet, noisy = sessions_of(*[100.0] * 4), sessions_of(*[90.0, 110.0] * 4)
    alone, among = (
        gate_of({"t": quiet, **others}).compare(("t", "main"), timing(100.0))
        for others in ({}, {"a": noisy, "b": noisy, "c": noisy})
    )
    assert alone is not None
    assert among is not None
    assert among.decision.high_pct > 1.1 * alone.decision.high_pct


def test_clock_that_is_not_known_adds_to_the_noise() -> None:
    known = sessions_of(*[0.5, 0.6] * 4, at_one_clock_us=0.6)
    found = gate_of({"t": known}).compare(("t", "main"), timing(0.55))
    assert found is not None
    assert found.at_mhz == 0
    assert found.decision.high_pct > 10


def test_clock_of_a_baseline_is_known_only_if_all_sessions_have_one() -> None:
    found = gate_of({"t": sessions_of(100.0)}).compare(("t", "main"), timing(100.0))
    assert found is not None
    assert found.baseline_mhz == 0


def test_limit_on_a_value_that_no_label_has_is_one_finding() -> None:
    test = record(a=measured(5.3), b=measured(5.3))
    found = verdict(test, limits=parse_limits(("instructions < 5",)))
    invalid = [finding for finding in found.findings if finding.status is Status.INVALID]
    assert [finding.label for finding in invalid] == ["a"]


@pytest.mark.parametrize(
    ("name", "before", "now", "explains"),
    [
        ("instructions", 1000.0, 1002.0, True),
        ("instructions", 1000.0, 998.0, False),
        ("achieved_occupancy", 50.0, 40.0, True),
        ("achieved_occupancy", 50.0, 60.0, False),
        ("stall.barrier", 10.0, 20.0, True),
        ("stall.barrier", 20.0, 10.0, False),
        ("l2_hit_rate", 50.0, 40.0, True),
        ("dram_bytes", 100.0, 200.0, False),
        ("occupancy_limiter", "warps", "registers", False),
        ("stall.barrier", 10.0, "many", False),
    ],
)
def test_worse_counters_that_cause_or_show_a_loss_explain_it(
    name: str, before: MetricValue, now: MetricValue, *, explains: bool
) -> None:
    found = compared(name, before, now)
    assert found.changes
    assert found.explanation == (str(found.changes[0]) if explains else "")


def test_cause_explains_before_an_effect() -> None:
    known = MeasurementBaseline(counters={"stall.barrier": 10.0, "instructions": 100.0})
    now = measured(None, {"stall.barrier": 90.0, "instructions": 110.0})
    assert compare_counters(now, known).explanation.startswith("instructions")


def test_counters_of_nothing_are_not_compared() -> None:
    known = MeasurementBaseline(counters={"instructions": 1.0})
    assert compare_counters(Measurement(), known) == CounterComparison()
    assert compare_counters(measured(None, {"dram_bytes": 1.0}), known).compared is False
    assert compared("instructions", 1.0, 1.0).compared is True
    assert compared("instructions", 1.0, 1.0).same_work
    assert not compared("instructions", 1.0, 2.0).same_work


def test_raw_change_counts_the_sessions_of_the_same_card() -> None:
    sessions = (Session(run="here", time_us=100.0, sm_clock_mhz=1500), Session(run="there", time_us=50.0))
    time = TimeBaseline(mode="hot", sessions=sessions)
    file = Baseline(
        schema=1,
        gpu=BaselineGpu(slug=H200.slug),
        runs={"here": RunNote(gpu_uuid="A"), "there": RunNote(gpu_uuid="B")},
        tests={"t": TestBaseline(measurements={"main": MeasurementBaseline(time=time)})},
    )
    found = Gate([file], card="A", comparisons=1).compare(("t", "main"), timing(110.0))
    assert found is not None
    assert [found.raw_change_pct, found.baseline_mhz] == pytest.approx([10, 1500])
    assert [found.actual_us, found.baseline_us] == pytest.approx([110, 100])
    assert (found.at_mhz, found.actual_mhz) == (0, 0)


@pytest.mark.parametrize("status", list(Status))
def test_strict_verdict_fails_by_inconclusive_too(status: Status) -> None:
    usual, strict = (TestVerdict(Status.PASS, strict=strict).fails_by(status) for strict in (False, True))
    assert usual is status.fails
    assert strict is (status.fails or status is Status.INCONCLUSIVE)
