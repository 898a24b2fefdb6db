"""Trials that count as working, and how they are shown."""

from __future__ import annotations

from pathlib import Path

from benchmarks.public_problems import OWN, ROOT, SCHEMA, Outcome, Results, outcomes_table, shown, summary
from pytest_gpuperf.features.trial.record import CaseResult, TrialResult, TrialVerdict
from run_builders import one_test


def outcome(accepted: bool, status: int) -> Outcome:
    verdict: TrialVerdict = "accepted" if status == 0 else "wrong"
    result = TrialResult(
        schema=1,
        solution="good.py",
        problem="problem.py",
        form="kernelbench",
        correct=status == 0,
        verdict=verdict,
        reasons=(),
        speed_up=None,
        cases=(CaseResult(name="", arguments={}, verdict=verdict, correct=status == 0),),
        gpu="NVIDIA H200",
        gpuperf="0.1.0",
        torch="2.11.0",
        seconds=1.0,
    )
    return Outcome(accepted=accepted, status=status, seconds=1.0, result=result)


def results(**trials: Outcome) -> Results:
    named = {name.replace("__", "/"): trial for name, trial in trials.items()}
    date = "2026-11-22T20:00:00Z"
    return Results(schema=SCHEMA, date=date, environment=one_test().environment, trials=named)


def test_summary_counts_verdicts() -> None:
    found = results(
        KernelBench__1__same=outcome(True, 0),
        KernelBench__2__same=outcome(True, 1),
        own__softmax__wrong=outcome(True, 1),
    )
    lines = summary(found).splitlines()
    assert lines[1] == "- KernelBench: 2 problems, 2 solutions: 1 accepted, 1 wrong"
    assert lines[2] == "- GPU MODE: 0 problems, 0 solutions: none tried"
    assert len(lines) == 3


def test_error_of_a_wrong_solution_does_not_count_as_refusal() -> None:
    assert not outcome(False, 2).works


def test_table_marks_trials_that_do_not_work() -> None:
    table = outcomes_table(results(KernelBench__1__same=outcome(True, 1)))
    assert "wrong **!**" in table


def test_shown_trial_is_its_output() -> None:
    text = shown(results(own__softmax__good=outcome(True, 0)), "good")
    assert text.startswith("```text\n$ gpuperf try suites/problems/softmax/good.py --reference")
    assert "accepted" in text


def test_every_own_problem_has_every_kind_of_solution() -> None:
    folders = [path for path in (ROOT / "suites" / "problems").glob("[a-z]*") if path.is_dir()]
    names = [Path(folder, f"{name}.py") for folder in folders for name in OWN]
    assert len(names) == 16
    assert all(path.exists() for path in names)
