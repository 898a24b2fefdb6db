"""The process of a trial: pytest with this plugin, in a folder of its own."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial.record import PLAN_FILE, REPORTS_FILE, CaseReport
from pytest_gpuperf.processes.children import run_child
from pytest_gpuperf.processes.signals import ended_in_order
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.records.runs import STATE_FOLDER, RunStore, load_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gpuperf.features.trial.record import TrialPlan
    from pytest_gpuperf.records import Run

TEST_FILE = "test_try.py"
FILES = {
    "pytest.ini": "[pytest]\n",
    "conftest.py": "from pytest_gpuperf.features.trial.plugin import pytest_configure\n",
    TEST_FILE: "from pytest_gpuperf.features.trial.plugin import pytest_generate_tests, test_solution\n",
}
HELPERS = "helpers"
"""Folder of the links to helper modules."""
LEAVING_S = 60
"""Seconds for the process to end after its last case."""
LAST_LINES = 15
DROPPED = ("PYTEST_ADDOPTS", "GITHUB_STEP_SUMMARY", "PYTEST_CURRENT_TEST")
"""Variables that belong to other runs of pytest."""


@dataclass(frozen=True)
class Tried:
    """Everything that the process left."""

    reports: Mapping[int, CaseReport]
    """By the index of the case; a case that was not reached has none."""
    run: Run | None
    """None if nothing was measured."""
    seconds: float


class _LeavesNotError(Exception):
    """The process has reported every case and does not end."""


def try_cases(
    plan: TrialPlan, folder: Path, timeout_s: float, progress: Callable[[int], None] = lambda _: None
) -> Tried:
    """Run the cases of a plan until one fails.

    Args:
        plan: The plan.
        folder: An empty folder.
        timeout_s: Seconds that one case may take.
        progress: Called with the number of cases that have ended.

    Raises:
        GpuperfError: pytest itself failed.
    """
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / PLAN_FILE).write_bytes(msgspec.json.encode(plan))
    log, reports = folder / "pytest.log", folder / REPORTS_FILE
    begin = time.monotonic()
    ended: list[float] = []

    def poll() -> None:
        done = _read(reports)
        progress(len(done))
        if len(done) == len(plan.cases) or not all(report.passed for report in done.values()):
            ended.append(time.monotonic())
            if ended[-1] - ended[0] > LEAVING_S:
                raise _LeavesNotError

    try:
        with ended_in_order():
            status = run_child(
                _command(plan, folder, timeout_s), cwd=Path.cwd(), env=_environment(plan), log=log, poll=poll
            )
    except _LeavesNotError:
        status = 1
    done = _read(reports)
    if status < 0 and all(report.passed for report in done.values()):
        raise GpuperfError(f"pytest was ended by signal {-status}: {_tail(log)}", next_step="try again")
    if not done:
        raise GpuperfError(f"pytest ended with exit status {status} before any case: {_tail(log)}")
    return Tried(done, _run_in(folder), time.monotonic() - begin)


def _command(plan: TrialPlan, folder: Path, timeout_s: float) -> list[str]:
    return [
        *(sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"),
        *("-c", str(folder / "pytest.ini"), f"--rootdir={folder}"),
        *("--gpuperf", "--gpuperf-replay=never", "--gpuperf-update=never", "--gpuperf-counters=off"),
        *(f"-ogpuperf_budget={plan.budget_s}", f"--gpuperf-timeout={timeout_s}"),
        str(folder / TEST_FILE),
    ]


def _environment(plan: TrialPlan) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
    if plan.form == "gpu-mode":
        # Its references ask torch for deterministic algorithms, which cuBLAS has only with this.
        kept.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1"}


def _read(path: Path) -> dict[int, CaseReport]:
    """Read the reports so far; the first one of a case counts."""
    found: dict[int, CaseReport] = {}
    data = path.read_bytes() if path.exists() else b""
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        report = msgspec.json.decode(line, type=CaseReport)
        found.setdefault(report.case, report)
    return found


def _run_in(folder: Path) -> Run | None:
    store = RunStore(folder / STATE_FOLDER)
    return load_run(store.resolve()) if store.ids() else None


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return " | ".join(map(printable, [line for line in lines if line.strip()][-LAST_LINES:])) or "no output"
