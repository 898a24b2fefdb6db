"""Plugin of the processes of `gpuperf diff-code`: reasons of tests that compile nothing, and modules."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.against.messages import SidePlan
from pytest_gpuperf.against.modules import Modules
from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    import pytest

COMPILES_ENV = "GPUPERF_COMPILES"
"""Names the plan of a side that only compiles; `start.py` reads it, too."""

NO_GPU = "CUDA_VISIBLE_DEVICES is empty"
"""Part of the message of a test that needs a GPU: the variable hides all of them."""


class Outcomes(msgspec.Struct):
    """Facts about a side that its run file lacks."""

    tests: list[str] = []
    """Node ids of the tests that were collected."""
    reasons: dict[str, str] = {}
    """Reason, by node id of a test or a file, why it did not pass."""
    problem: str = ""
    """Reason why nothing of this side can be trusted."""
    shared: list[str] = []
    """Modules that both sides import from the checkout."""


_OUTCOMES = Outcomes()


def outcomes_file(plan: Path) -> Path:
    """Return the file of a side's outcomes, next to its plan."""
    return plan.with_suffix(".outcomes")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note the tests."""
    _OUTCOMES.tests += [item.nodeid for item in session.items]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note files that cannot be collected."""
    if not report.passed:
        _OUTCOMES.reasons[report.nodeid] = _reason(report)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note tests that fail or skip."""
    if not report.passed:
        _OUTCOMES.reasons.setdefault(report.nodeid, _reason(report))


def pytest_sessionfinish() -> None:
    """Check the origin of the modules, and write the outcomes."""
    place = Path(os.environ[COMPILES_ENV])
    plan = SidePlan.read(place)
    modules = Modules(plan.checkout, plan.tree, plan.other)
    try:
        modules.check()
    except GpuperfError as error:
        _OUTCOMES.problem = str(error)
    _OUTCOMES.shared = modules.new_shared()
    outcomes_file(place).write_bytes(msgspec.json.encode(_OUTCOMES))


def _reason(report: pytest.CollectReport | pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):  # of a skip: path, line, reason
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    lines = [line for line in text.splitlines() if line.strip()]
    if NO_GPU in text:
        return "it needs a GPU, and only gpuperf.static compiles without one"
    # A traceback ends with the error.
    return lines[0 if crash is not None else -1].removeprefix("E ").strip() if lines else report.outcome
