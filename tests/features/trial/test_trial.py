"""The tests that `gpuperf try` generates, run on the CPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from forked import fork_children, parent_of_forks
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial import trial_process
from pytest_gpuperf.features.trial.cases import cases_of
from pytest_gpuperf.features.trial.record import CaseReport, TrialMessage, TrialResult
from pytest_gpuperf.features.trial.trial_process import try_cases
from pytest_gpuperf.features.trial.verdict import judge_trial
from pytest_gpuperf.processes import children
from trial_builders import plan

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
    """Fork the processes of a trial, with the CPU in place of the GPU."""
    command = trial_process._command
    monkeypatch.setattr(trial_process, "_command", lambda *given: [*command(*given), "-p", "trial_on_cpu"])
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=":")
    fork_children(monkeypatch.setattr)
    parent_of_forks()  # else the server would count as left behind


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
        ("c.append(1);c[30:] and setattr(torch, 'abs', print);return 2 * data\nc=[]", "refused", "torch.abs"),
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
    assert tried(tmp_path, body).verdict == "wrong"


def test_solution_that_forges_reports_and_ends_its_parent_is_not_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Forked processes would have another parent, and share pipes with the server that forks all others.
    monkeypatch.setattr(children, "subprocess", subprocess)
    forged = msgspec.msgpack.encode(TrialMessage(report=CaseReport(case=0, verdict="accepted")))
    body = f"""import os, signal
    folder = f'/proc/{{os.getppid()}}/fd'
    for name in os.listdir(folder):
        try:
            # A file would be opened, and spoiled, such as a module that is being imported.
            if os.readlink(f'{{folder}}/{{name}}').startswith(('pipe:', 'socket:')):
                os.write(os.open(f'{{folder}}/{{name}}', os.O_WRONLY | os.O_NONBLOCK), {forged!r})
        except OSError: pass
    os.kill(os.getppid(), signal.SIGINT); return data
"""
    with pytest.raises(GpuperfError, match="before any case"):
        tried(tmp_path, body)


def test_process_left_by_the_solution_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Forked processes need not be descendants of this one.
    monkeypatch.setattr(children, "subprocess", subprocess)
    program = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(99)"
    body = (
        f"import subprocess, sys, os; not os.path.exists({str(tmp_path / 'pid')!r}) and "
        f"subprocess.Popen([sys.executable, '-c', {program!r}], start_new_session=True); "
        "return data + data"
    )
    assert tried(tmp_path, body).verdict == "accepted"
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()


def test_missing_argument_ends_the_trial_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(GpuperfError, match=r"argument: 'size'; name its arguments: --case"):
        tried(tmp_path, "return data", "seed=3")
