"""Bounds of the judgement on counters."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from judging import HINTS, verdict
from pytest_gpuperf.judge.counters import (
    CounterComparison,
    compare_counters,
)
from pytest_gpuperf.judge.limits import parse_limits
from pytest_gpuperf.judge.result import Status, TestVerdict
from pytest_gpuperf.judge.times import BaselineComparison
from pytest_gpuperf.records import Measurement, MetricValue, Trace
from pytest_gpuperf.records.baseline import MeasurementBaseline
from run_builders import measured, profile, record


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


def test_limit_on_a_value_that_no_label_has_is_one_finding() -> None:
    test = record(a=measured(5.3), b=measured(5.3))
    found = verdict(test, limits=parse_limits(("instructions < 5",)))
    invalid = [finding for finding in found.findings if finding.status is Status.INVALID]
    assert [finding.label for finding in invalid] == ["a"]


def test_counters_of_nothing_are_not_compared() -> None:
    known = MeasurementBaseline(counters={"instructions": 1.0})
    assert compare_counters(Measurement(), known) == CounterComparison()
    assert compare_counters(measured(None, {"dram_bytes": 1.0}), known).compared is False
    assert compared("instructions", 1.0, 1.0).compared is True
    assert compared("instructions", 1.0, 1.0).same_work
    assert not compared("instructions", 1.0, 2.0).same_work


@pytest.mark.parametrize("status", list(Status))
def test_strict_verdict_fails_by_inconclusive_too(status: Status) -> None:
    usual, strict = (TestVerdict(Status.PASS, strict=strict).fails_by(status) for strict in (False, True))
    assert usual is status.fails
    assert strict is (status.fails or status is Status.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("name", "before", "now", "shown"),
    [
        ("dram_bytes", 524e6, 1048e6, "dram_bytes 524 -> 1048 MB (+100.0 %)"),
        ("instructions", 100, 200, "instructions 100 -> 200 (+100.0 %)"),
        ("instructions", 1.5e6, 3e6, "instructions 1.50 -> 3 M (+100.0 %)"),
        ("l2_hit_rate", 80, 40, "l2_hit_rate 80 -> 40 % (-50.0 %)"),
        ("registers_per_thread", 32, 40, "registers_per_thread 32 -> 40 (+25.0 %)"),
        ("occupancy_limiter", "warps", "registers", "occupancy_limiter warps -> registers"),
    ],
)
def test_counters_are_shown_in_units_that_people_use(
    name: str, before: MetricValue, now: MetricValue, shown: str
) -> None:
    assert compared(name, before, now).details == (shown,)


def test_four_largest_counters_are_shown_behind_the_kernels() -> None:
    names = ("dram_bytes", "instructions", "registers_per_thread", "l2_hit_rate", "achieved_occupancy")
    known = MeasurementBaseline(counters=dict.fromkeys(names, 100.0), kernels=("old",))
    now = {name: 100.0 * (1.1 + at / 10) for at, name in enumerate(names)}
    kernels, *shown, rest = compare_counters(measured(None, now), known).details
    assert kernels == "now runs square_kernel; no longer runs old"
    assert [line.partition(" ")[0] for line in shown] == list(reversed(names[1:]))
    assert rest == "and 1 more counters (gpuperf report)"
