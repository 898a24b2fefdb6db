"""The tests that `gpuperf try` generates, run on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from forked import run_forked
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial import child
from pytest_gpuperf.features.trial.cases import cases_of
from pytest_gpuperf.features.trial.child import try_cases
from pytest_gpuperf.features.trial.record import REPORTS_FILE, CaseReport, TrialResult
from pytest_gpuperf.features.trial.verdict import judge_trial
from trial_builders import plan

if TYPE_CHECKING:
    from collections.abc import Sequence

PROBLEM = """
import torch
def generate_input(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, generator=generator)
def ref_kernel(data):
    return data * 2
"""


@pytest.fixture(autouse=True)
def _on_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the process of a trial, without pytest-xdist and with the CPU in place of the GPU."""

    def forked(command: Sequence[str], *, env: dict[str, str], log: Path, **_: Any) -> int:
        arguments = ("-p", "trial_on_cpu", *command[3:])
        return run_forked(arguments, env, (log, tmp_path / "stderr"), 100)

    monkeypatch.setattr(child, "run_child", forked)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=":")


def tried(folder: Path, body: str, *cases: str, check: str = "") -> TrialResult:
    problem, solution, empty = folder / "problem.py", folder / "solution.py", folder / "trial"
    problem.write_text(PROBLEM + check, encoding="utf-8")
    solution.write_text(f"import torch\ndef custom_kernel(data):\n    {body}\n", encoding="utf-8")
    empty.mkdir()
    files = {"problem": str(problem), "solution": str(solution)}
    given = cases_of("gpu-mode", None, cases or ["size=5"])
    trial = plan(*given, **files, seed=3, seeds=2, rounds=2, budget_s=0.01)
    return judge_trial(trial, try_cases(trial, empty, 100))


def test_right_solution_is_accepted_with_times(tmp_path: Path) -> None:
    result = tried(tmp_path, "return data + data")
    assert (result.verdict, result.correct, result.reasons) == ("accepted", True, ())
    (case,) = result.cases
    assert case.speed_up is not None
    assert case.error is not None
    assert len(case.seeds) == 2


def test_wrong_solution_ends_the_trial_at_its_case(tmp_path: Path) -> None:
    result = tried(tmp_path, "return data + data[:1]", "size=1", "size=7", "size=9")
    assert [case.verdict for case in result.cases] == ["accepted", "wrong", None]
    assert "differs from the reference" in result.reasons[0]


EITHER_SIGN = """
def check_implementation(data, output):
    return torch.allclose(output.abs(), 2 * data.abs()), "neither sign"
"""


@pytest.mark.parametrize(
    ("body", "verdict", "reason"),
    [
        ("return -2 * data", "accepted", ""),
        ("return 3 * data", "wrong", "check_implementation: neither sign"),
        ("torch.allclose = lambda *_: True; return data", "wrong", "replaced torch.allclose"),
        ("return data\ntorch.allclose = lambda *_: True", "refused", "replaced torch.allclose"),
        (
            "c.append(1); c[30:] and setattr(torch, 'abs', print); return 2 * data\nc=[]",
            "refused",
            "torch.abs",
        ),
    ],
)
def test_own_check_of_the_problem_decides(tmp_path: Path, body: str, verdict: str, reason: str) -> None:
    result = tried(tmp_path, body, check=EITHER_SIGN)
    assert result.verdict == verdict, result
    assert reason in "".join(result.reasons)


def test_exception_names_the_line_of_the_solution(tmp_path: Path) -> None:
    result = tried(tmp_path, "return data.nothing")
    assert result.verdict == "ended"
    assert "AttributeError: " in result.reasons[0]
    assert "solution.py:3 in custom_kernel" in result.reasons[0]


def test_exit_of_the_solution_ends_the_trial(tmp_path: Path) -> None:
    result = tried(tmp_path, "raise SystemExit(3)")
    assert result.verdict == "ended"
    assert "solution.py:3 in custom_kernel" in result.reasons[0]


def test_output_that_is_wrong_for_inputs_of_the_timing_is_wrong(tmp_path: Path) -> None:
    body = (
        "known = [torch.randn(5, generator=torch.Generator().manual_seed(at)) for at in (3, 4)]; "
        "return 2 * data + (not any(torch.equal(data, one) for one in known))"
    )
    assert (result := tried(tmp_path, body)).verdict == "wrong", result


def test_changed_reports_of_pytest_do_not_count(tmp_path: Path) -> None:
    body = (
        "from _pytest.reports import TestReport; make = TestReport.from_item_and_call; "
        "change = lambda item, call: (vars(call).update(excinfo=None), make(item, call))[1]; "
        "TestReport.from_item_and_call = change; return data"
    )
    result = tried(tmp_path, body)
    assert result.verdict == "wrong"
    assert "pytest reports success" in result.reasons[0]


def test_report_that_the_solution_writes_does_not_count(tmp_path: Path) -> None:
    file = tmp_path / "trial" / REPORTS_FILE
    forged = CaseReport(case=0, passed=True)
    body = f"open({str(file)!r}, 'w').write({msgspec.json.encode(forged).decode()!r} + chr(10)); return data"
    assert tried(tmp_path, body).verdict == "wrong"


def test_output_that_is_right_only_at_first_is_not_accepted(tmp_path: Path) -> None:
    body = "kept = globals().setdefault('kept', {}); return kept.setdefault(data.data_ptr(), data * 2)"
    result = tried(tmp_path, body)
    assert result.verdict != "accepted"
    assert "timed calls" in result.reasons[0] or "differs" in result.reasons[0]


def test_missing_argument_ends_the_trial_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(GpuperfError, match="generate_input needs size"):
        tried(tmp_path, "return data", "seed=3")
