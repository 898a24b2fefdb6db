"""The process of a trial, as its parent sees it: reports, limits, environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial import child
from pytest_gpuperf.features.trial.child import try_cases
from pytest_gpuperf.features.trial.record import REPORTS_FILE, CaseReport
from trial_builders import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

PLAN = plan("a", "b", budget_s=0.5)
PASSED, FAILED = (CaseReport(case=0, passed=passed) for passed in (True, False))


class Ran:
    """A stand-in for the process: it writes reports and polls."""

    def __init__(self, data: bytes, polls: int = 1, log: str = "", status: int = 1) -> None:
        self.status = status
        self.data = data
        self.polls = polls
        self.text = log
        self.command: Sequence[str] = ()
        self.environment: dict[str, str] = {}

    def __call__(
        self, command: Sequence[str], *, cwd: Path, env: dict[str, str], log: Path, poll: Callable[[], None]
    ) -> int:
        self.command, self.environment = command, env
        log.write_text(self.text, encoding="utf-8")
        (log.parent / REPORTS_FILE).write_bytes(self.data)
        for _ in range(self.polls):
            poll()
        return self.status


def encoded(*reports: CaseReport) -> bytes:
    return b"".join(msgspec.json.encode(report) + b"\n" for report in reports)


def tried(ran: Ran, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(child, "run_child", ran)
    return try_cases(PLAN, folder, 9)


def test_half_written_report_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tried(Ran(encoded(PASSED) + b'{"case":1,"pas'), tmp_path, monkeypatch)
    assert dict(found.reports) == {0: PASSED}
    assert found.run is None


def test_first_report_of_a_case_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(Ran(encoded(FAILED, PASSED)), tmp_path, monkeypatch).reports[0] == FAILED


def test_end_before_any_case_shows_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GpuperfError, match=r"exit status 1 before any case: one \| two"):
        tried(Ran(b"", log="one\n\ntwo\n"), tmp_path, monkeypatch)


def test_passed_cases_of_a_killed_process_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GpuperfError, match="pytest was ended by signal 9: one; try again"):
        tried(Ran(encoded(PASSED), log="one\n", status=-9), tmp_path, monkeypatch)


def test_process_that_does_not_end_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "LEAVING_S", -1)
    assert tried(Ran(encoded(FAILED), polls=10**9), tmp_path, monkeypatch).reports == {0: FAILED}


def test_options_of_other_runs_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "--gpuperf-against=main")
    ran = Ran(encoded(PASSED))
    tried(ran, tmp_path, monkeypatch)
    assert "PYTEST_ADDOPTS" not in ran.environment
    assert ran.environment["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert {"--gpuperf-timeout=9", "-ogpuperf_budget=0.5", "-x"} <= set(ran.command)


def test_progress_counts_ended_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "run_child", Ran(encoded(PASSED)))
    counts: list[int] = []
    try_cases(PLAN, tmp_path, 9, counts.append)
    assert counts == [1]
