"""The baselines of the tests of a run, and verdicts by them: no test is imported, no kernel runs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pytest_gpuperf.judge.limits import parse_limits
from pytest_gpuperf.judge.result import Hints, TestResult
from pytest_gpuperf.judge.times import Origin
from pytest_gpuperf.judge.verdict import Expected, judge
from pytest_gpuperf.records.baseline import suite_of
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.records.run import STATIC_SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.baseline.store import BaselineStore
    from pytest_gpuperf.records import Environment, Run, TestRecord
    from pytest_gpuperf.records.baseline import (
        Baseline,
        MeasurementBaseline,
        RunNote,
        TestBaseline,
    )

ACCEPT = "gpuperf baseline accept"


class Expectations:
    """Baselines of the tests of a run on the present GPU, and of kernels that were only compiled.

    Args:
        store: The baseline files.
        environment: GPU and toolchain of the run.
        cards: UUID of the card of each test, by node id, if the run has several.
    """

    def __init__(
        self, store: BaselineStore, environment: Environment, cards: Mapping[str, str] | None = None
    ) -> None:
        self.store = store
        self._environment = environment
        self._cards = cards or {}

    def of(self, nodeid: str, slug: str = "") -> TestBaseline | None:
        """Return the baseline of a test on the present GPU, or in another folder of the baselines.

        Raises:
            GpuperfError: The baseline file is broken, of a newer schema, or for another GPU.
        """
        baseline = self._file(nodeid, slug)
        return baseline.tests.get(nodeid) if baseline else None

    def runs(self, nodeid: str, slug: str = "") -> Mapping[str, RunNote]:
        """Return the origins of the sessions in a test's baseline file, by run id."""
        baseline = self._file(nodeid, slug)
        return baseline.runs if baseline else {}

    def expected(
        self, test: TestRecord, tolerance_pct: float, hints: Hints, compiled_hints: Hints
    ) -> tuple[Expected, Expected]:
        """Return the facts that the judge needs: for measurements on this GPU, and for compiled kernels.

        The accepted slowdown counts if neither the baseline nor the record has one.
        """
        nodeid, gpu = test.nodeid, self._environment.gpu
        card = self._cards.get(nodeid, gpu.uuid)
        origin = Origin(card, self._environment.toolchain, self.runs(nodeid))
        tolerance_pct = self.tolerance_pct(nodeid, test.tolerance_pct or tolerance_pct)

        def of(slug: str, hints: Hints) -> Expected:
            file = show_path(self.store.path(slug or gpu.slug, suite_of(nodeid)))
            return Expected(self.of(nodeid, slug), origin, tolerance_pct, hints, file, gpu)

        return of("", hints), of(STATIC_SOURCE, compiled_hints)

    def measurement(self, nodeid: str, label: str, slug: str = "") -> MeasurementBaseline | None:
        """Return the baseline of one measurement of a test; None without one."""
        baseline = self.of(nodeid, slug)
        return baseline.measurements.get(label) if baseline is not None else None

    def tolerance_pct(self, nodeid: str, otherwise_pct: float) -> float:
        """Return the accepted slowdown of a test, in %: that of the baseline file comes first."""
        baseline = self.of(nodeid)
        own = baseline.tolerance_pct if baseline is not None else None
        return otherwise_pct if own is None else own

    def limited(self, nodeid: str) -> list[str]:
        """Return the metrics that the baseline file has limits for."""
        baseline = self.of(nodeid)
        limits = parse_limits(baseline.limits) if baseline is not None else ()
        return [limit.name for limit in limits if limit.part == "profile"]

    @cached_property
    def other_gpus(self) -> str:
        """A remark about baselines for other GPUs; empty if there are none."""
        own = self._environment.gpu.slug
        others = [other for other in self.store.slugs() if other not in (own, STATIC_SOURCE)]
        return f" (there are baselines for {', '.join(others)}, not for {own})" if others else ""

    def _file(self, nodeid: str, slug: str) -> Baseline | None:
        return self.store.load(slug or self._environment.gpu.slug, suite_of(nodeid))


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
    found = [(test, expected.expected(test, tolerance_pct, hints, hints)) for test in run.tests]
    return [judge(test, *known) for test, known in found]


def not_measured(run: Run, store: BaselineStore) -> list[str]:
    """Return the node ids that have a baseline on the GPU of a run and are not in the run.

    Raises:
        GpuperfError: As `judge_run`.
    """
    measured = {test.nodeid for test in run.tests}
    return [nodeid for nodeid, _, _ in store.tests(run.environment.gpu.slug) if nodeid not in measured]
