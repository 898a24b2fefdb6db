"""The process of a trial: pytest with this plugin, in a folder of its own.

The solution runs in a worker of that pytest. The worker's parent sends the reports by a socket that only it
and this process have: there is no file to forge.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial.leftover_processes import descendants_ended, seal
from pytest_gpuperf.features.trial.record import CHANNEL_ENV, PLAN_FILE, TrialMessage
from pytest_gpuperf.processes.children import run_child
from pytest_gpuperf.processes.signals import ended_in_order
from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gpuperf.features.trial.record import CaseReport, TrialPlan
    from pytest_gpuperf.records import Run

TEST_FILE = "test_try.py"
FILES = {
    "pytest.ini": "[pytest]\n",
    "conftest.py": "from pytest_gpuperf.features.trial.plugin import pytest_configure\n",
    TEST_FILE: "from pytest_gpuperf.features.trial.plugin import pytest_generate_tests, test_solution\n",
}
LEAVING_S = 60
"""Seconds outside of the cases: the start of the process, and its end."""
LAST_LINES = 15
DROPPED = ("PYTEST_ADDOPTS", "GITHUB_STEP_SUMMARY", "PYTEST_CURRENT_TEST")
"""Variables that belong to other runs of pytest."""


@dataclass(frozen=True)
class TrialOutput:
    """Everything that the process has sent."""

    reports: Mapping[int, CaseReport]
    """By the index of the case; a case that was not reached has none."""
    run: Run | None
    """None if the exit status of the process does not agree with the reports."""
    seconds: float


class _StuckError(Exception):
    """Nothing has come from the process for too long."""


def try_cases(
    plan: TrialPlan, folder: Path, timeout_s: float, progress: Callable[[int], None] = lambda _: None
) -> TrialOutput:
    """Run the cases of a plan until one is not accepted.

    Args:
        plan: The plan.
        folder: An empty folder.
        timeout_s: Seconds that one case may take.
        progress: Called with the number of cases that have ended.

    Raises:
        GpuperfError: pytest itself failed.
    """
    seal()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / PLAN_FILE).write_bytes(msgspec.json.encode(plan))
    log = folder / "pytest.log"
    reports: dict[int, CaseReport] = {}
    run: Run | None = None
    begin = heard = time.monotonic()
    # Sockets, which no other process can open by their place in /proc.
    ours, theirs = Pipe()

    def take() -> None:
        nonlocal run, heard
        with suppress(EOFError):
            while ours.poll():
                sent = msgspec.msgpack.decode(ours.recv_bytes(), type=TrialMessage)
                heard, run = time.monotonic(), sent.run
                if sent.report is not None:
                    reports.setdefault(sent.report.case, sent.report)
        progress(len(reports))

    def poll() -> None:
        take()
        if time.monotonic() - heard > timeout_s + LEAVING_S:
            raise _StuckError

    with ours, theirs, descendants_ended(), ended_in_order():
        try:
            status: int | None = run_child(
                _command(plan, folder, timeout_s),
                cwd=Path.cwd(),
                env=_environment(plan, theirs.fileno()),
                log=log,
                poll=poll,
                pass_fds=(theirs.fileno(),),
            )
        except _StuckError:
            status = None
        take()
    if not reports:
        raise GpuperfError(f"pytest ended with exit status {status} before any case: {_tail(log)}")
    failed = any(not report.accepted for report in reports.values())
    return TrialOutput(reports, run if status == failed else None, time.monotonic() - begin)


def _command(plan: TrialPlan, folder: Path, timeout_s: float) -> list[str]:
    return [
        *(sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "xdist", "-n1"),
        *("-c", str(folder / "pytest.ini"), f"--rootdir={folder}"),
        *("--gpuperf", "--gpuperf-replay=never", "--gpuperf-update=never", "--gpuperf-counters=off"),
        *(f"-ogpuperf_budget={plan.budget_s}", "-ogpuperf_verify=strict", f"--gpuperf-timeout={timeout_s}"),
        str(folder / TEST_FILE),
    ]


def _environment(plan: TrialPlan, channel: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
    if plan.form == "gpu-mode":
        # Its references ask torch for deterministic algorithms, which cuBLAS has only with this.
        kept.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", CHANNEL_ENV: str(channel)}


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return " | ".join(map(printable, [line for line in lines if line.strip()][-LAST_LINES:])) or "no output"
