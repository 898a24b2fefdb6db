"""The process of a trial, as its parent sees it: reports, limits, environment."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import msgspec
import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial import trial_process
from pytest_gpuperf.features.trial.record import CaseReport, TrialMessage
from pytest_gpuperf.features.trial.trial_process import TrialOutput, try_cases
from run_builders import one_test
from trial_builders import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

ACCEPTED, WRONG = CaseReport(case=0, verdict="accepted"), CaseReport(case=0, verdict="wrong")


class Ran:
    """A stand-in for the process: it sends reports, and lets its parent poll."""

    def __init__(self, *reports: CaseReport, polls: int = 1, status: int = 0) -> None:
        self.sent = [TrialMessage(report=report) for report in reports] + [TrialMessage(run=one_test())]
        self.polls = polls
        self.status = status
        self.command: Sequence[str] = ()
        self.environment: dict[str, str] = {}

    def __call__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        log: Path,
        poll: Callable[[], None],
        pass_fds: Sequence[int],
    ) -> int:
        self.command, self.environment = command, env
        log.write_text("one\n\ntwo\n", encoding="utf-8")
        with Connection(os.dup(pass_fds[0])) as channel:
            for message in self.sent:
                channel.send_bytes(msgspec.msgpack.encode(message))
        for _ in range(self.polls):
            poll()
        return self.status


def tried(ran: Ran, folder: Path, monkeypatch: pytest.MonkeyPatch) -> TrialOutput:
    monkeypatch.setattr(trial_process, "run_child", ran)
    return try_cases(plan("a", "b", budget_s=0.5), folder, 9)


def test_first_report_of_a_case_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(Ran(WRONG, ACCEPTED, status=1), tmp_path, monkeypatch).reports == {0: WRONG}


def test_end_before_any_case_shows_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GpuperfError, match=r"exit status 1 before any case: one \| two"):
        tried(Ran(status=1), tmp_path, monkeypatch)


@pytest.mark.parametrize("status", [1, 2, -9])
def test_run_of_a_process_that_did_not_end_well_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    assert tried(Ran(ACCEPTED), tmp_path, monkeypatch).run == one_test()
    assert tried(Ran(ACCEPTED, status=status), tmp_path, monkeypatch).run is None


def test_process_that_does_not_end_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_process, "LEAVING_S", -10)
    found = tried(Ran(WRONG, polls=10**9), tmp_path, monkeypatch)
    assert (found.reports, found.run) == ({0: WRONG}, None)


def test_options_of_other_runs_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "--gpuperf-against=main")
    ran = Ran(ACCEPTED)
    tried(ran, tmp_path, monkeypatch)
    assert "PYTEST_ADDOPTS" not in ran.environment
    assert ran.environment["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert {"--gpuperf-timeout=9", "-ogpuperf_budget=0.5", "-ogpuperf_verify=strict", "-x"} <= {*ran.command}
