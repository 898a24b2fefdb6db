"""Verdicts on a run by its baselines: no test is imported, no kernel runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.baseline.store import Expectations
from pytest_gpuperf.judge.result import Hints, TestResult
from pytest_gpuperf.judge.verdict import judge

if TYPE_CHECKING:
    from pytest_gpuperf.baseline.store import BaselineStore
    from pytest_gpuperf.records import Run

ACCEPT = "gpuperf baseline accept"


def judge_run(run: Run, store: BaselineStore, tolerance_pct: float = 0.0) -> list[TestResult]:
    """Judge the tests of a run, in their order.

    Limits in the baseline files count, and those that the records have from their tests. Of an assertion only
    its failure is recorded: that test is `invalid`, and so is one with a limit that cannot be read. The
    accepted slowdown is for tests that have none in their baseline or their record.

    Raises:
        GpuperfError: A baseline file is broken, of a newer schema, or for another GPU.
    """
    expected = Expectations(store, run.environment, run.cards)
    hints = Hints(f"if this is intended: {ACCEPT}", f"{ACCEPT} makes one{expected.other_gpus}")
    return [judge(test, *expected.expected(test, tolerance_pct, hints, hints)) for test in run.tests]


def not_measured(run: Run, store: BaselineStore) -> list[str]:
    """Return the node ids that have a baseline on the GPU of a run and are not in the run.

    Raises:
        GpuperfError: As `judge_run`.
    """
    measured = {test.nodeid for test in run.tests}
    return [nodeid for nodeid, _, _ in store.tests(run.environment.gpu.slug) if nodeid not in measured]
