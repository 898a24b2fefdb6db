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
    from collections.abc import Sequence

    from pytest_gpuperf.baseline.store import BaselineStore
    from pytest_gpuperf.judge.limits import Limit
    from pytest_gpuperf.judge.result import TestVerdict
    from pytest_gpuperf.records import Environment, Run, TestRecord

ACCEPT = "gpuperf baseline accept"


def judge_record(
    test: TestRecord,
    expected: Expectations,
    environment: Environment,
    *,
    hints: Hints,
    compiled_hints: Hints,
    tolerance_pct: float = 0.0,
    errors: Sequence[str] = (),
    strict: bool = False,
) -> TestVerdict:
    """Judge one test by its record and the baselines.

    Args:
        test: The record, with the limits that the test states itself.
        expected: The baselines.
        environment: GPU and toolchain that measured.
        hints: Commands to type next.
        compiled_hints: The same for kernels that were only compiled.
        tolerance_pct: Accepted slowdown, in %, if neither the baseline nor the record has one.
        errors: Mistakes that the user must fix before the test can be judged.
        strict: True if a time that cannot be called fails the test.
    """
    nodeid = test.nodeid
    mistakes = [*(errors_of(test.sanitizer) if test.sanitizer else ()), *errors]
    limits: tuple[Limit, ...] = ()
    try:
        limits = parse_limits(list(test.limits))
    except GpuperfError as error:
        mistakes.append(f"{error.found} in the record of the test")
    return judge(
        test,
        limits=limits,
        measured=Expected(
            expected.of(nodeid),
            expected.origin(nodeid, environment),
            expected.tolerance_pct(nodeid, test.tolerance_pct or tolerance_pct),
            hints,
            expected.file(nodeid),
            environment.gpu,
        ),
        compiled=Expected(
            expected.of(nodeid, STATIC_SOURCE),
            hints=compiled_hints,
            file=expected.file(nodeid, STATIC_SOURCE),
        ),
        errors=mistakes,
        strict=strict,
    )


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
    accept, no_baseline = f"if this is intended: {ACCEPT}", f"{ACCEPT} makes one{expected.other_gpus}"
    hints = Hints(accept, no_baseline)
    return [
        TestResult(
            test,
            judge_record(
                test,
                expected,
                run.environment,
                hints=hints,
                compiled_hints=hints,
                tolerance_pct=tolerance_pct,
            ),
        )
        for test in run.tests
    ]


def not_measured(run: Run, store: BaselineStore) -> list[str]:
    """Return the node ids that have a baseline on the GPU of a run and are not in the run.

    Raises:
        GpuperfError: As `judge_run`.
    """
    measured = {test.nodeid for test in run.tests}
    return [nodeid for nodeid, _, _ in store.tests(run.environment.gpu.slug) if nodeid not in measured]
