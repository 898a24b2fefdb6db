"""Verdicts on a run by its records and the baseline files: no test is imported, no kernel runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.baseline.expectations import Expectations
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.limits import parse_limits
from pytest_gpuperf.judge.result import Hints, TestResult
from pytest_gpuperf.judge.sanitizer_errors import errors_of
from pytest_gpuperf.judge.verdict import Expected, judge
from pytest_gpuperf.records.counters import STATIC_SOURCE

if TYPE_CHECKING:
    from pytest_gpuperf.baseline.store import BaselineStore
    from pytest_gpuperf.judge.limits import Limit
    from pytest_gpuperf.records import Run

ACCEPT = "gpuperf baseline accept"


def judge_run(run: Run, store: BaselineStore, tolerance_pct: float = 0.0) -> list[TestResult]:
    """Judge the tests of a run, in their order.

    Limits in the baseline files count, and those that the records have from their tests. Of an assertion only
    its failure is recorded: that test is `invalid`, and so is one with a limit that cannot be read.

    Args:
        run: Measured or compiled tests.
        store: The baselines to judge by.
        tolerance_pct: Accepted slowdown, in %, of tests that have none in their baseline or their record.

    Raises:
        GpuperfError: A baseline file is broken, of a newer schema, or for another GPU.
    """
    expected = Expectations(store, run.environment.gpu, run.cards)
    for test in run.tests:
        expected.add(test.nodeid)
    hints = Hints(
        accept=f"if this is intended: {ACCEPT}",
        no_baseline=f"{ACCEPT} makes one{expected.other_gpus}",
    )
    results = []
    for test in run.tests:
        baseline = expected.of(test.nodeid)
        known = baseline.tolerance_pct if baseline is not None else None
        errors = list(errors_of(test.sanitizer)) if test.sanitizer else []
        limits: tuple[Limit, ...] = ()
        try:
            limits = parse_limits(test.limits)
        except GpuperfError as error:
            errors.append(f"{error.found} in the record of the test")
        verdict = judge(
            test,
            limits=limits,
            measured=Expected(
                baseline,
                expected.origin(test.nodeid, run.environment),
                known if known is not None else test.tolerance_pct or tolerance_pct,
                hints,
                expected.file(test.nodeid),
                run.environment.gpu,
            ),
            compiled=Expected(
                expected.of(test.nodeid, STATIC_SOURCE),
                hints=hints,
                file=expected.file(test.nodeid, STATIC_SOURCE),
            ),
            errors=errors,
        )
        results.append(TestResult(test, verdict))
    return results


def not_measured(run: Run, store: BaselineStore) -> list[str]:
    """Return the node ids that have a baseline on the GPU of a run and are not in the run.

    Raises:
        GpuperfError: As `judge_run`.
    """
    slug = run.environment.gpu.slug
    baselines = (store.load(slug, suite) for suite in store.suites(slug))
    known = (nodeid for baseline in baselines if baseline is not None for nodeid in baseline.tests)
    measured = {test.nodeid for test in run.tests}
    return [nodeid for nodeid in known if nodeid not in measured]
