"""`gpuperf try`: exit status, errors and the JSON object; the process of the trial is a stand-in."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from command_line import gpuperf
from pytest_gpuperf.features.trial import trial_process
from pytest_gpuperf.features.trial.record import TIMED, CaseReport, CaseTimes, TrialPlan
from pytest_gpuperf.features.trial.trial_process import TrialOutput
from pytest_gpuperf.features.trial.verdict import judge_trial, reasons_in
from pytest_gpuperf.records import AgainstTiming, Correctness, Measurement, Run, TestRecord
from run_builders import run as make_run
from run_builders import timing
from trial_builders import plan

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

PROBLEM = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"
TIMES = CaseTimes(
    in_turn=AgainstTiming(
        ref="reference",
        commit="",
        mode="hot",
        log_ratios=(-0.6931, -0.6933, -0.693, -0.6932),
        raw_log_ratios=(-0.6931, -0.6933, -0.693, -0.6932),
        new_first=(False, True, False, True),
        old_us=20.0,
        new_us=10.0,
    ),
    reference_rounds_us=(20.0, 20.01, 19.99, 20.0),
    solution_rounds_us=(10.0, 10.01, 9.99, 10.0),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pytest_gpuperf.measure.device.gpu_detection.may_measure", lambda: True)
    (tmp_path / "problem.py").write_text(PROBLEM, encoding="utf-8")
    (tmp_path / "solution.py").write_text("class ModelNew: ...\n", encoding="utf-8")
    return tmp_path


def tried(*options: str, report: CaseReport, monkeypatch: pytest.MonkeyPatch) -> Result:
    run = measured(passed=report.verdict != "wrong")

    def try_cases(plan: TrialPlan, *_: Any) -> TrialOutput:
        assert len(plan.cases) == 1
        return TrialOutput({0: report}, run, 1.5)

    monkeypatch.setattr(trial_process, "try_cases", try_cases)
    return invoked(*options)


invoked = partial(gpuperf, "try", "solution.py", "--reference", "problem.py")


def measured(*, passed: bool = True, timed: bool = True) -> Run:
    parts = {
        "seed 7": Measurement(correctness=Correctness(passed=passed, max_abs_diff=0.5)),
        TIMED: Measurement(timing=timing() if timed else None),
    }
    return make_run(TestRecord(nodeid="test_try.py::test_solution[0]", measurements=parts))


ACCEPTED = CaseReport(case=0, verdict="accepted", times=TIMES, seeds=(7,))
ENDINGS = [
    (ACCEPTED, "accepted", True, 0),
    (CaseReport(case=0, verdict="wrong", text="gpuperf: differs"), "wrong", False, 1),
    (CaseReport(case=0, verdict="refused", text="gpuperf: the time is refused"), "refused", True, 1),
    (CaseReport(case=0, verdict="ended", text="ValueError: x"), "ended", False, 1),
]


@pytest.mark.parametrize(("report", "verdict", "correct", "status"), ENDINGS)
@pytest.mark.usefixtures("folder")
def test_verdict_decides_the_exit_status(
    report: CaseReport, verdict: str, correct: bool, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = tried("--json", report=report, monkeypatch=monkeypatch)
    found = json.loads(result.stdout)
    assert (found["verdict"], found["correct"], result.exit_code) == (verdict, correct, status)
    assert bool(found["reasons"]) == (verdict != "accepted")


@pytest.mark.usefixtures("folder")
def test_object_has_times_speed_up_and_error(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = json.loads(tried("--json", report=ACCEPTED, monkeypatch=monkeypatch).stdout)["cases"]
    assert case["speed_up"]["low"] < case["speed_up"]["value"] == pytest.approx(2, rel=1e-3)
    assert case["speed_up"]["value"] < case["speed_up"]["high"]
    assert case["reference_us"] == pytest.approx(20, rel=1e-3)
    assert case["solution_us"] == pytest.approx(10, rel=1e-3)
    assert case["error"]["max_abs_diff"] == 0.5
    assert case["seeds"] == [7]


@pytest.mark.usefixtures("folder")
def test_unusable_files_have_exit_status_2(monkeypatch: pytest.MonkeyPatch) -> None:
    report = CaseReport(case=0, verdict="ended", cannot_run=True, text="solution.py:1 imports x")
    result = tried("--json", report=report, monkeypatch=monkeypatch)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == "gpuperf: error: solution.py:1 imports x\n"


def test_without_gpu_there_is_one_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gpuperf.measure.device.gpu_detection.may_measure", lambda: False)
    result = invoked(status=2)
    assert result.stderr.startswith("gpuperf: error: torch finds no GPU that it can use; expected a CUDA GPU")


def test_case_without_a_result_is_not_accepted() -> None:
    result = judge_trial(plan("a", "b", "c"), TrialOutput({0: ACCEPTED}, measured(), 1.5))
    assert (result.verdict, result.correct) == ("ended", False)
    assert [case.verdict for case in result.cases] == ["accepted", "ended", None]
    assert result.reasons[0].startswith("b: the trial ended before")


@pytest.mark.parametrize(
    ("report", "run"),
    [
        (ACCEPTED, None),
        (ACCEPTED, make_run()),
        (ACCEPTED, measured(passed=False)),
        (ACCEPTED, measured(timed=False)),
        (replace(ACCEPTED, times=None), measured()),
    ],
)
def test_report_without_its_measurements_is_not_accepted(report: CaseReport, run: Run | None) -> None:
    assert judge_trial(plan("a"), TrialOutput({0: report}, run, 1.5)).verdict == "ended"


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("gpuperf: one\n    detail\ngpuperf: two\nto find the cause: pytest", ("one\n    detail", "two")),
        (
            "gpuperf: this test took more than 9 s (--gpuperf-timeout)",
            ("the solution took more than 9 s (--timeout)",),
        ),
        (
            "argument 0 was changed; if the function is meant to write to it, name it in mutates=",
            ("argument 0 was changed",),
        ),
        ("ImportError: in /a/pytest_gpuperf/b.py", ("ImportError: in /a/pytest_gpuperf/b.py",)),
    ],
)
def test_message_of_a_test_becomes_reasons(text: str, reasons: tuple[str, ...]) -> None:
    assert reasons_in(text) == reasons
