"""Measured and compiled parts of tests, runs and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from judging import verdict
from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.baseline.run_verdicts import judge_run
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.judge.counters import other_compiler
from pytest_gpuperf.judge.result import Finding, Status
from pytest_gpuperf.judge.verdict import Expected, judge
from pytest_gpuperf.records import Accuracy, Correctness, Measurement, Profile, Workload
from pytest_gpuperf.records.baseline import MeasurementBaseline, TestBaseline
from run_builders import measured, record, run, timing

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.records import MetricValue

COMPILED = Measurement(
    profile=Profile(combined={"registers_per_thread": 32.0, "compiler": "Triton 3.6"}, source="static")
)


def test_test_with_both_parts_is_split_by_label() -> None:
    assert record(main=measured(5.0), sm_90=COMPILED).parts == ({"main": measured(5.0)}, {"sm_90": COMPILED})


@pytest.mark.parametrize(
    ("limit", "labels"),
    [
        ("time_us < 1", ["main"]),
        ("registers_per_thread <= 20", ["main", "sm_90"]),
        ("sm_90: registers_per_thread <= 20", ["sm_90"]),
        ("spills == 0", ["sm_90"]),
    ],
)
def test_limits_of_a_test_with_both_parts_go_where_the_value_is(limit: str, labels: list[str]) -> None:
    spilling: dict[str, MetricValue] = {"registers_per_thread": 32.0, "spills": 8.0}
    compiled = replace(COMPILED, profile=Profile(combined=spilling, source="static"))
    test = record(main=measured(5.0, {"registers_per_thread": 40.0}), sm_90=compiled)
    findings = verdict(replace(test, limits=(limit,))).findings
    assert [one.label for one in findings if one.status is Status.LIMIT] == labels


def test_kernel_of_another_compiler_is_not_compared() -> None:
    before: dict[str, MetricValue] = {"registers_per_thread": 30.0, "compiler": "Triton 3.5"}
    known = TestBaseline(measurements={"sm_90": MeasurementBaseline(counters=before)})
    found = judge(record(sm_90=COMPILED), Expected(), Expected(known))
    line = "compiled by Triton 3.6, the baseline by Triton 3.5: another kernel, not compared; "
    assert found.findings == (Finding(Status.NEW, line, "sm_90"),)


@pytest.mark.parametrize(
    ("before", "now", "other"),
    [
        ("ptxas 12", "ptxas 13", True),
        ("ptxas 12", "ptxas 12", False),
        ("ptxas 12", None, False),
        (None, "ptxas 13", False),
    ],
)
def test_compilers_differ_if_both_are_known(before: str | None, now: str | None, *, other: bool) -> None:
    def counters(compiler: str | None) -> dict[str, MetricValue]:
        return {"registers_per_thread": 32.0, **({"compiler": compiler} if compiler else {})}

    known = MeasurementBaseline(counters=counters(before))
    assert bool(other_compiler(measured(None, counters(now)), known)) is other


def outputs(accuracy: Accuracy, *others: Accuracy) -> Measurement:
    return Measurement(correctness=Correctness(passed=True, accuracy=replace(accuracy, others=others)))


WITH_MEMORY = Measurement(timing=replace(timing(5.0), work=Workload(peak_memory_mb=8.0)))
ASKED: dict[str, MetricValue] = dict.fromkeys(
    ("block_size", "grid_size", "instructions", "l1_hit_rate", "l2_hit_rate", "waves"), 9.0
)
MOST = "block_size, grid_size, instructions, l1_hit_rate"
FEW: dict[str, MetricValue] = {"waves": 9.0}
BY_NCU: dict[str, MetricValue] = {**ASKED, "dram_gb_per_s": 9.0, "occupancy_limit.barriers": 9.0}
BY_CUPTI = Profile(combined=ASKED, source="cupti")
FEWER = Profile(combined=FEW, source="cupti", preset="launch")
OUTPUTS = [Accuracy(output=f"output[{at}]", rms_ulp=1.0) for at in range(2)]


@pytest.mark.parametrize(
    ("before", "now", "verdict", "lost"),
    [
        ({"main": measured(5.0), "sm_90": COMPILED}, {"main": measured(5.0)}, "invalid", ""),
        ({"main": measured(5.0), "sm_90": COMPILED}, {"sm_90": COMPILED}, "invalid", ""),
        ({"main": WITH_MEMORY}, {"main": measured(5.0)}, "pass", "peak_memory_mb"),
        ({"main": outputs(*OUTPUTS)}, {"main": outputs(OUTPUTS[0])}, "pass", "accuracy of output[1]"),
        ({"main": measured(None, ASKED)}, {"main": measured(None, FEW)}, "pass", f"{MOST}, …"),
        ({"main": measured(None, BY_NCU)}, {"main": Measurement(profile=BY_CUPTI)}, "pass", ""),
        ({"main": measured(None, BY_NCU)}, {"main": Measurement(profile=FEWER)}, "invalid", ""),
    ],
    ids=["compiled", "measured", "memory", "output", "counters", "another reader", "fewer of another"],
)
def test_lost_part_fails_or_warns_until_it_is_accepted(
    tmp_path: Path, before: dict[str, Measurement], now: dict[str, Measurement], verdict: str, lost: str
) -> None:
    store = BaselineStore(tmp_path)
    accept(run(replace(record(), measurements=before)), store, "all", 0.0)
    second = run(
        replace(record(), measurements=now), id="20261121-173012-3f9a", started_at="2026-11-21T17:30:12+00:00"
    )
    (found,) = judge_run(second, store)
    warning = f"of the baseline, not measured by this test: {lost}" if lost else ""
    assert (found.status, found.warning) == (verdict, warning)
    assert accept(second, store, "new", 0.0).files == {}
    accept(second, store, "changed", 0.0)
    (after,) = judge_run(second, store)
    assert (after.status, after.warning) == (Status.PASS, "")


def test_check_without_the_accuracy_of_its_baseline_warns_until_accepted(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path)
    accept(run(record(main=outputs(OUTPUTS[0]))), store, "all", 0.0)
    checked = run(record(main=Measurement(correctness=Correctness(passed=True))), id="20261121-173012-3f9a")
    (found,) = judge_run(checked, store)
    assert (found.status, found.warning.partition(" of ")[0]) == (Status.PASS, "accuracy")
    accept(checked, store, "changed", 0.0)
    assert judge_run(checked, store)[0].warning == ""
