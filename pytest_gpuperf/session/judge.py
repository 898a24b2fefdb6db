"""The judge of a run: it compares what tests have measured with limits and baselines."""

from __future__ import annotations

import shlex
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.against.git import UNSHALLOW
from pytest_gpuperf.baseline.run_verdicts import ACCEPT
from pytest_gpuperf.baseline.store import BaselineStore, Expectations
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.result import Finding, Hints, Status, TestResult
from pytest_gpuperf.judge.verdict import judge
from pytest_gpuperf.measure.counters.metric_name_check import check_names
from pytest_gpuperf.metrics.chips import chip_of
from pytest_gpuperf.records import NO_GPU, TestRecord
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.records.number_ranges import MOST_LIMITS
from pytest_gpuperf.records.run import STATIC_SOURCE
from pytest_gpuperf.records.run_store import STATE_FOLDER, recording_path
from pytest_gpuperf.session.lost_baselines import is_shallow, last_commit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.records import Environment, Run
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.settings.settings import Settings

EXAMPLE = "gpuperf(kernel, x, expected=reference)"


class Judge:
    """Judges the tests of a run.

    Args:
        settings: The options.
        environment: GPU and toolchain that the measurements belong to.
        recorded: The recorded runs if nothing is measured, the newest first.
        cards: UUID of the GPU on which each test was measured, by node id; by default as recorded.
        card: UUID of the GPU of all tests, if the run has several GPUs.
    """

    def __init__(
        self,
        settings: Settings,
        environment: Environment,
        recorded: Sequence[Run] = (),
        cards: Mapping[str, str] | None = None,
        card: str = "",
    ) -> None:
        self.settings = settings
        self.environment = environment
        self._cards = {nodeid: uuid for run in reversed(recorded) for nodeid, uuid in run.cards.items()}
        self._cards.update(cards or {})
        self._card = card
        store = BaselineStore(settings.baselines, state=settings.root / STATE_FOLDER)
        self.recorded = {test.nodeid: run for run in reversed(recorded) for test in run.tests}
        """The recorded run that has a test, by node id."""
        self.expected = Expectations(store, environment, self._cards)
        self.expected.toolchains = {name: run.environment.toolchain for name, run in self.recorded.items()}
        self._newest = next(iter(recorded), None)
        self._accept = {run.id: _accept_command(settings, run) for run in recorded}
        self._labels = {test.nodeid: {*test.measurements} for run in reversed(recorded) for test in run.tests}
        self._replays = bool(recorded)
        self._other_gpus = self.expected.other_gpus

    def accept(self, nodeid: str = "") -> str:
        """Return the command that makes the run that has a test the baseline."""
        run = self.recorded.get(nodeid, self._newest)
        return self._accept[run.id] if run is not None else ACCEPT

    def _hints(self, nodeid: str) -> Hints:
        accept = self.accept(nodeid)
        makes = accept if self._replays else "pytest --gpuperf --gpuperf-update=new"
        # A baseline does not change the comparison with the old code that the user named.
        intended = "" if self.settings.against else f"if this is intended: {accept}"
        return Hints(intended, f"{makes} makes one{self._other_gpus}")

    def _compiled_hints(self, nodeid: str) -> Hints:
        update = self.accept(nodeid)
        if self._replays and self.settings.replay == "auto":
            file = shlex.quote(nodeid.partition("::")[0])
            update = f"pytest --gpuperf --gpuperf-replay=never --gpuperf-update=changed {file}"
        return Hints(f"if this is intended: {update}", f"{update} takes it over")

    def guards(self, nodeid: str) -> bool:
        """Return True if a baseline has values of a test.

        Raises:
            GpuperfError: The baseline file is broken, of a newer schema, or for another GPU.
        """
        known = [self.expected.of(nodeid, slug) for slug in ("", STATIC_SOURCE)]
        return any(baseline is not None and baseline.measurements for baseline in known)

    def knows(self, nodeid: str) -> bool:
        """Return True if a test was recorded, or has a baseline."""
        with suppress(GpuperfError):  # in a broken file; later it ends the run
            known = (self.expected.of(nodeid, slug) for slug in ("", STATIC_SOURCE))
            return nodeid in self.recorded or any(baseline is not None for baseline in known)
        return False

    def check_metrics(self, states: Sequence[ItemState]) -> None:
        """Refuse metrics that the GPU does not have before any test runs.

        Raises:
            GpuperfError: A marker, an option or a limit names one.
        """
        names = [*self.settings.metrics]
        for state in states:
            names += (*state.marker.metrics, *self.expected.limit_metrics(state.nodeid))
        chip = chip_of(self.environment.gpu.compute_capability)
        check_names(names, chip.name if chip else "")

    def tolerance_pct(self, state: ItemState) -> float:
        """Return a test's accepted slowdown, in percent; the baseline file comes first."""
        own = state.stated_tolerance_pct or self.settings.tolerance_pct
        return self.expected.tolerance_pct(state.nodeid, own)

    def record(self, state: ItemState, failure: str = "") -> TestRecord:
        """Return the record of a test that has run.

        Args:
            state: Its measurements.
            failure: Type of the exception that ended it; empty if none did.
        """
        own, recorded = self.environment.gpu.uuid, self._cards.get(state.nodeid, "")
        runs = not self._replays and self.environment.gpu.slug != NO_GPU.slug
        return TestRecord(
            nodeid=state.nodeid,
            measurements=dict(state.measurements),
            failure=failure,
            tolerance_pct=state.stated_tolerance_pct,
            limits=tuple(map(str, state.stated_limits[:MOST_LIMITS])),
            sanitizer=state.sanitized,
            gpu_uuid=self._card or (recorded if recorded != own else ""),
            seconds=round(time.perf_counter() - state.began, 3) if runs else 0.0,
        )

    def test(self, state: ItemState, failure: str = "") -> TestResult:
        """Judge a test that has run.

        Args:
            state: Its measurements.
            failure: Type of the exception that ended it; empty if none did.
        """
        record, mistakes = self.record(state, failure), state.mistakes
        # A test that only asks for the fixture would pass in each run, also once it has no baseline any more.
        measures = state.called or record.measurements or record.sanitizer or failure or mistakes
        if not (measures or state.plain):
            mistakes = [f"the test measured nothing; expected a call such as {EXAMPLE}, or no fixture"]
        # The record of a mistake that the test caught would pass, and be accepted.
        if mistakes and not failure:
            record = replace(record, failure="Failed")
        return self.result(record, mistakes)

    def result(self, record: TestRecord, errors: Sequence[str] = ()) -> TestResult:
        """Judge the record of a test.

        Args:
            record: The record.
            errors: Mistakes that the user must fix before the test can be judged.
        """
        hints, compiled_hints = self._hints(record.nodeid), self._compiled_hints(record.nodeid)
        if not record.failure and self._labels.get(record.nodeid, set()) > record.measurements.keys():
            hints = compiled_hints  # the recording is of another test
        result = judge(
            record,
            *self.expected.expected(record, self.settings.tolerance_pct, hints, compiled_hints),
            errors=errors,
            # What becomes the baseline in any case need not be decided.
            strict=self.settings.strict and self.settings.update != "all",
        )
        if self.settings.strict and result.status is Status.NEW and self.settings.update == "never":
            result = self._refuse_lost(result)
        if self._replays:
            result = replace(result, suspects=())  # nothing can be timed
        return replace(result, replayed=self._is_replayed(record))

    def _refuse_lost(self, result: TestResult) -> TestResult:
        """Fail a test that is new although an ancestor's baselines have it: somebody has lost its values."""
        nodeid = result.record.nodeid
        labels = {one.label for one in result.findings if one.status is Status.NEW}
        slugs = (self.environment.gpu.slug, STATIC_SOURCE)
        found = (last_commit(self.expected, slug, nodeid, labels) for slug in slugs)
        commit = next(filter(None, found), "")
        line = f"new, although baselines of an ancestor have it, last in {commit} (--gpuperf-strict)"
        finding = Finding(Status.INVALID, line, next_step=self._hints(nodeid).accept)
        if not commit:
            if not is_shallow(self.settings.root):
                return result
            line = "new, and this shallow clone does not tell if it has lost a baseline (--gpuperf-strict)"
            finding = Finding(Status.INVALID, line, next_step=UNSHALLOW)
        return replace(result, status=Status.INVALID, findings=(finding, *result.findings))

    def _is_replayed(self, record: TestRecord) -> bool:
        """Return True for measurements of an earlier run; a replay may compile kernels now."""
        kinds = {measurement.is_static for measurement in record.measurements.values()}
        return self._replays and (self.settings.replay != "auto" or kinds != {True})


def _accept_command(settings: Settings, recorded: Run) -> str:
    path = show_path(recording_path(settings.baselines, recorded))
    return f"{ACCEPT} {path if settings.replay == 'auto' else shlex.quote(settings.replay)}"
