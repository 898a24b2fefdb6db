"""Measured and compiled parts of tests, runs and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from judging import baseline
from pytest_gpuperf.baseline.judged import judge_run
from pytest_gpuperf.baseline.merge import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.cli import baseline_status
from pytest_gpuperf.judge.limits import parse_limits
from pytest_gpuperf.judge.parts import same_compiler, split_limits, split_record
from pytest_gpuperf.judge.result import Finding, Status
from pytest_gpuperf.judge.verdict import Expected, judge
from pytest_gpuperf.records import NO_GPU, Measurement, Profile
from pytest_gpuperf.records.baseline import MeasurementBaseline, TestBaseline
from run_builders import measured, record, run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.records import MetricValue

COMPILED = Measurement(
    profile=Profile(combined={"registers_per_thread": 32.0, "compiler": "Triton 3.6"}, source="static")
)


def test_test_with_both_parts_is_split_by_label() -> None:
    both = record(main=measured(5.0), sm_90=COMPILED)
    assert split_record(both) == (record(main=measured(5.0)), record(sm_90=COMPILED))
    assert split_record(record(sm_90=COMPILED)) == (None, record(sm_90=COMPILED))
    assert split_record(record()) == (record(), None)


def test_status_splits_a_run_by_folder_of_baselines() -> None:
    timed, compiled = record(main=measured(5.0)), record(sm_90=COMPILED)
    both = run(record(main=measured(5.0), sm_90=COMPILED))
    parts = {one.environment.gpu.slug: one.tests for one in baseline_status._split_run(both)}
    assert parts == {"nvidia-h200": (timed,), NO_GPU.slug: (compiled,)}
    for whole in (run(timed), run(), run(compiled, gpu=NO_GPU)):
        assert baseline_status._split_run(whole) == [whole]
    (only,) = baseline_status._split_run(run(compiled))
    assert only.environment.gpu == NO_GPU


def test_limits_of_a_test_with_one_part_are_all_for_it() -> None:
    limits = list(parse_limits(("time_us < 5", "spills == 0")))
    assert split_limits(limits, record(main=measured()), None) == (limits, limits)
    assert split_limits(limits, None, record(sm_90=COMPILED)) == (limits, limits)


def test_limits_of_a_test_with_both_parts_go_where_the_value_is() -> None:
    time, registers, of_arch, compiler = parse_limits(
        (
            "time_us < 5",
            "registers_per_thread <= 40",
            "sm_90: registers_per_thread <= 40",
            "wgmma in tensor_instructions",
        )
    )
    found = split_limits(
        [time, registers, of_arch, compiler], record(main=measured()), record(sm_90=COMPILED)
    )
    assert found == ([time, registers], [registers, of_arch])


@pytest.mark.parametrize(("before", "same"), [("Triton 3.5", False), ("Triton 3.6", True), (None, True)])
def test_kernels_of_another_compiler_are_not_compared(before: str | None, *, same: bool) -> None:
    counters: dict[str, MetricValue] = {"registers_per_thread": 30.0}
    known = MeasurementBaseline(counters=counters | ({"compiler": before} if before else {}))
    baseline, findings = same_compiler(
        record(sm_90=COMPILED), TestBaseline(measurements={"sm_90": known}), "type this"
    )
    assert baseline is not None
    assert baseline.measurements["sm_90"] == (known if same else MeasurementBaseline())
    line = "compiled by Triton 3.6, the baseline by Triton 3.5: another kernel, not compared; type this"
    assert findings == ([] if same else [Finding(Status.NEW, line, "sm_90")])


def test_label_that_was_not_compiled_keeps_its_baseline() -> None:
    baseline = TestBaseline(measurements={"sm_80": MeasurementBaseline(counters={"compiler": "Triton 3.5"})})
    for test in (record(sm_90=COMPILED), record(sm_80=replace(COMPILED, profile=None))):
        assert same_compiler(test, baseline, "") == (baseline, [])
    assert same_compiler(record(), None, "") == (None, [])


def test_verdict_names_kernels_of_another_compiler() -> None:
    known = TestBaseline(measurements={"sm_90": MeasurementBaseline(counters={"compiler": "Triton 3.5"})})
    found = judge(record(sm_90=COMPILED), measured=Expected(None), compiled=Expected(known))
    assert any("another kernel, not compared" in finding.line for finding in found.findings)


@pytest.mark.parametrize(
    ("before", "now", "other"),
    [
        ("ptxas 12", "ptxas 13", True),
        ("ptxas 12", "ptxas 12", False),
        ("ptxas 12", None, False),
        (None, "ptxas 13", False),
        (None, None, False),
    ],
)
def test_kernel_of_another_compiler_is_not_compared(
    before: str | None, now: str | None, *, other: bool
) -> None:
    def counters(compiler: str | None) -> dict[str, MetricValue]:
        return {"registers_per_thread": 32.0, **({"compiler": compiler} if compiler else {})}

    known = baseline(5.3, counters(before))
    found, findings = same_compiler(record(main=measured(None, counters(now))), known, "accept it")
    assert found is not None
    assert (found.measurements["main"].counters == {}) is other
    assert [finding.line for finding in findings] == [
        "compiled by ptxas 13, the baseline by ptxas 12: another kernel, not compared; accept it"
    ] * other


@pytest.mark.parametrize("kept", [{"main": measured(5.0)}, {"sm_90": COMPILED}], ids=["gpu", "compiled"])
def test_lost_part_fails_until_it_is_accepted(tmp_path: Path, kept: dict[str, Measurement]) -> None:
    store = BaselineStore(tmp_path)
    accept(run(record(main=measured(5.0), sm_90=COMPILED)), store, "all", 0.0, environ={})
    lost = run(
        replace(record(), measurements=kept),
        id="20261121-173012-3f9a",
        started_at="2026-11-21T17:30:12+00:00",
    )
    (before,) = judge_run(lost, store)
    assert before.verdict.status is Status.INVALID
    accept(lost, store, "all", 0.0, environ={})
    (after,) = judge_run(lost, store)
    assert after.verdict.status is Status.PASS
