"""The base of the ways to run: it judges tests, and holds their results."""

from __future__ import annotations

import datetime
import time
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

import pytest
from msgspec.structs import replace

from pytest_gpuperf.against.git import UNSHALLOW
from pytest_gpuperf.baseline.durations import load_durations
from pytest_gpuperf.baseline.expectations import Expectations
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.result import Finding, Hints, Status, TestResult, TestVerdict
from pytest_gpuperf.judge.sanitizer_errors import errors_of
from pytest_gpuperf.judge.verdict import Expected, judge
from pytest_gpuperf.measure.counters.metric_names import check_names
from pytest_gpuperf.metrics.chips import chip_of
from pytest_gpuperf.records import NO_GPU, TestRecord
from pytest_gpuperf.records.counters import STATIC_SOURCE
from pytest_gpuperf.records.quantities import MOST_LIMITS
from pytest_gpuperf.records.runs import STATE_FOLDER
from pytest_gpuperf.records.writing import write_files
from pytest_gpuperf.registry import registry
from pytest_gpuperf.session.orphans import is_shallow, last_change, last_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import torch
    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.errors import NoGpuError
    from pytest_gpuperf.records import (
        Environment,
        Run,
        SanitizerResult,
        Settlement,
        StaticKernel,
    )
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.records.passes import Invocation, SelectedTest
    from pytest_gpuperf.report.rows import Summary
    from pytest_gpuperf.report.verdicts import End
    from pytest_gpuperf.session.link import Facts, Link
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.session.progress import Terminal
    from pytest_gpuperf.session.source import Processes, Source
    from pytest_gpuperf.settings.settings import Settings

EXAMPLE = "gpuperf(kernel, x, expected=reference)"
OTHER_FILE = "remove it, or name another file"
"""Next step if a file exists that this tool has not written."""


class Runner:
    """One way to run `pytest --gpuperf`: holds the results of the run, and judges them.

    Args:
        settings: The options.
        source: The source of the measurements, or the reason why nothing can be measured.
        environment: GPU and toolchain that the measurements belong to.
        replayed_from: The newest of the recorded runs if nothing is measured.
        cards: UUID of the GPU on which each test was recorded, by node id.
    """

    on_gpu: ClassVar[bool] = False
    """True if calls run on the GPU of this machine."""
    judges: ClassVar[bool] = True
    """False in children: their parent judges."""
    run_id = ""
    """Id of the run file; empty if none is kept."""
    link: Link | None = None
    """Leads to the controller, which keeps and reports the results; None if this process does."""

    def __init__(
        self,
        settings: Settings,
        source: Source | NoGpuError,
        environment: Environment,
        replayed_from: Run | None = None,
        cards: Mapping[str, str] | None = None,
    ) -> None:
        self.settings = settings
        self.source = source
        self.own_processes: list[Processes] = []
        """Processes of features, which end with the run."""
        self.environment = environment
        self.replayed_from = replayed_from
        self.counters_unavailable = ""
        self.notices: list[str] = []
        self.updated = False
        """True if this run has become the baseline."""
        self.expected_failures: set[str] = set()
        """Tests that failed as expected."""
        self.lines: dict[str, int] = {}
        """Line of each selected test in its file."""
        self.sanitized: dict[str, SanitizerResult] = {}
        """The errors that compute-sanitizer found, by node id."""
        self.problems: list[str] = []
        """Errors of the run that no test caused."""
        self.unread: dict[str, SelectedTest] = {}
        """Tests with calls that ncu reads after all tests, by node id."""
        self._results: dict[str, TestResult] = {}
        self.only: frozenset[str] | None = None
        """Node ids of the tests to run; None for all that pytest selects."""
        store = BaselineStore(settings.baselines, state=settings.root / STATE_FOLDER)
        self.expected = Expectations(store, environment.gpu, cards)
        self._cards = cards or {}

    @property
    def results(self) -> list[TestResult]:
        """The results in the order of the run; the last one of a test that ran again."""
        return list(self._results.values())

    @property
    def device(self) -> torch.device:
        """The device for the tests' tensors: the GPU, or `meta`, which has shapes and no data."""
        import torch

        return torch.device("cuda", torch.cuda.current_device()) if self.on_gpu else torch.device("meta")

    def static(self, call: Call) -> dict[str, StaticKernel]:
        """Compile for each architecture, which needs no GPU.

        Args:
            call: Compiles, and launches nothing.

        Raises:
            GpuperfError: The kernel does not compile, or cannot be launched on one of them.
        """
        kernels: dict[str, StaticKernel] = call()
        return kernels

    def durations(self) -> dict[str, float]:
        """Return the durations that the baselines of this model of GPU have, in seconds, by node id.

        Raises:
            GpuperfError: A baseline file is broken, of a newer schema, or for another GPU.
        """
        return load_durations(self.expected.store, self.environment.gpu.slug)

    def expect(self, nodeid: str) -> None:
        """Add a selected test, and read the baseline of its suite.

        Raises:
            GpuperfError: The baseline file is broken, of a newer schema, or for another GPU.
        """
        self.expected.add(nodeid)

    def knows(self, nodeid: str) -> bool:
        """Return True if this run has anything to compare a test with."""
        with suppress(GpuperfError):  # in a broken file; later it ends the run
            return any(self.expected.of(nodeid, slug) is not None for slug in ("", STATIC_SOURCE))
        return False

    def guards(self, nodeid: str) -> bool:
        """Return True if a baseline has values of a test."""
        known = (self.expected.of(nodeid, slug) for slug in ("", STATIC_SOURCE))
        return any(baseline is not None and baseline.measurements for baseline in known)

    def begin(self, reporter: Terminal | None) -> None:
        """Wait until no other run measures on this GPU."""

    def enter(self, nodeid: str) -> None:
        """Note that a test begins."""

    def end(self) -> None:
        """Let other runs use the GPU."""

    def check_metrics(self, states: Sequence[ItemState]) -> None:
        """Refuse metrics that the GPU does not have before any test runs.

        Raises:
            GpuperfError: A marker, an option or a limit names one.
        """
        names = [
            name for state in states for name in (*state.marker.metrics, *self.expected.limited(state.nodeid))
        ]
        chip = chip_of(self.environment.gpu.compute_capability)
        check_names([*self.settings.metrics, *names], chip.name if chip else "")

    def run_passes(
        self, states: Sequence[ItemState], invocation: Invocation, reporter: Terminal | None
    ) -> None:
        """Run the passes, counters under ncu and compute-sanitizer, and get ready to settle suspects.

        Args:
            states: The tests.
            invocation: The command that started pytest.
            reporter: Shows the progress.

        Raises:
            GpuperfError: A pass cannot run here.
        """

    def may_run(self, nodeid: str) -> bool:
        """Return False for a test with memory errors: it could harm other tests."""
        result = self.sanitized.get(nodeid)
        return result is None or not (result.count or result.unchecked)

    def judge(self, state: ItemState, failure: str = "") -> TestResult:
        """Judge a test that has run, and keep the result.

        Args:
            state: Its measurements.
            failure: Type of the exception that ended it; empty if none did.
        """
        sanitized = self.sanitized.get(state.nodeid)
        record = TestRecord(
            nodeid=state.nodeid,
            measurements=dict(state.measurements),
            failure=failure,
            tolerance_pct=state.stated_tolerance_pct,
            limits=tuple(map(str, state.stated_limits[:MOST_LIMITS])),
            sanitizer=sanitized,
            gpu_uuid=self.card(state.nodeid),
            seconds=round(time.perf_counter() - state.began, 3) if self.on_gpu else 0.0,
        )
        verdict = TestVerdict(Status.INVALID)
        try:
            verdict = self._verdict(record, state)
            if settled := self.settle(state, record, verdict):
                known = record.measurements.items()
                measured = {label: replace(one, settlement=settled.get(label)) for label, one in known}
                record = replace(record, measurements=measured)
                verdict = self._verdict(record, state)
        finally:
            # A test that could not be judged keeps its measurements.
            result = TestResult(record, verdict, replayed=self._is_replayed(record))
            unread = self.left_to_ncu(result)
            if self.link is None:
                self.take(result)
                self.leave_to_ncu(state.nodeid, unread)
            else:
                from pytest_gpuperf.session.link import Judged

                self.link.tell(Judged.of(result, unread))
        return result

    def settle(
        self, _state: ItemState, _record: TestRecord, _verdict: TestVerdict
    ) -> Mapping[str, Settlement]:
        """Settle the suspects of a test by other processes, and return the settlements by label.

        Args:
            _state: The test.
            _record: Its measurements.
            _verdict: Its verdict so far.
        """
        return {}

    def left_to_ncu(self, _result: TestResult) -> SelectedTest | None:
        """Return what ncu has to read of a test after all tests; None if that is nothing."""
        return None

    def leave_to_ncu(self, nodeid: str, unread: SelectedTest | None) -> None:
        """Note what ncu has to read of a test that was judged, or that this is nothing."""
        self.unread.pop(nodeid, None)
        if unread is not None:
            self.unread[nodeid] = unread

    def card(self, nodeid: str) -> str:
        """Return the UUID of a test's GPU; empty if it is that of the environment."""
        own = self.environment.gpu.uuid
        if self.on_gpu:
            return own if self.link is not None and len(self.link.orders.cards) > 1 else ""
        card = self._cards.get(nodeid, own)
        return card if card != own else ""

    def take(self, result: TestResult) -> None:
        """Keep a result."""
        self._results[result.record.nodeid] = result

    @property
    def why_no_counters(self) -> str:
        """Reason why the whole run has no counters; empty if no test asks for any."""
        return ""

    @property
    def skipped(self) -> dict[str, str]:
        """Reasons why tests without a recording were skipped, by node id."""
        return {}

    def tell_facts(self) -> None:
        """Tell the controller the state of this run, if there is one."""
        if self.link is not None:
            self.link.tell(self.facts())

    def facts(self) -> Facts:
        """Return the state of this run, except its results."""
        from pytest_gpuperf.session.link import Facts

        return Facts(
            self.environment,
            self.counters_unavailable,
            self.why_no_counters,
            self.notices,
            self.problems,
            self.lines,
            self.replayed_from is not None,
            self.skipped,
        )

    def update(self, facts: Facts) -> None:
        """Take newer facts of a worker; the notices of all workers stay."""
        self.notices[:] = dict.fromkeys((*self.notices, *facts.notices))
        self.problems[:] = dict.fromkeys((*self.problems, *facts.problems))
        self.lines.update(facts.lines)
        self.skipped.update(facts.skipped)

    def in_order(self, nodeids: Sequence[str]) -> None:
        """Bring the results of several workers into the order of the tests."""
        places = {nodeid: place for place, nodeid in enumerate(nodeids)}
        self._results = dict(sorted(self._results.items(), key=lambda one: places.get(one[0], len(places))))

    def _verdict(self, record: TestRecord, state: ItemState) -> TestVerdict:
        limits = state.stated_limits
        errors = [*(errors_of(record.sanitizer) if record.sanitizer else ()), *state.errors]
        if len(limits) > MOST_LIMITS:
            errors.append(f"the test states {len(limits):,} limits; expected at most {MOST_LIMITS:,}")
        idle = not (state.called or record.measurements or record.sanitizer or record.failure or errors)
        if idle and not self.guards(state.nodeid):
            errors.append(f"the test measured nothing; expected a call such as {EXAMPLE}")
        verdict = judge(
            record,
            limits=limits,
            measured=Expected(
                self.expected.of(state.nodeid),
                self.expected.origin(state.nodeid, self.environment),
                self.tolerance_pct(state),
                self._hints(state.nodeid),
                self.expected.file(state.nodeid),
                self.environment.gpu,
            ),
            compiled=self._expected_of_compiled(state.nodeid),
            errors=errors,
            # What becomes the baseline in any case need not be decided.
            strict=self.settings.strict and self.settings.update != "all",
        )
        return self._strict(verdict, state.nodeid) if self.settings.strict else verdict

    def _strict(self, verdict: TestVerdict, nodeid: str) -> TestVerdict:
        """Fail a test that is new although an ancestor's baselines have it: somebody has lost its values."""
        if verdict.status is not Status.NEW or self.settings.update != "never":
            return verdict
        if self.guards(nodeid):
            labels = {one.label for one in verdict.findings if one.status is Status.NEW}
            commit = last_values(self.expected, self.environment.gpu.slug, nodeid, labels) or last_values(
                self.expected, STATIC_SOURCE, nodeid, labels
            )
        else:
            commit = last_change(self.expected.store.root / self.environment.gpu.slug, nodeid)
        line = f"new, although baselines of an ancestor have it, last changed by {commit} (--gpuperf-strict)"
        finding = Finding(Status.INVALID, line, next_step=self._hints(nodeid).accept)
        if not commit:
            if not is_shallow(self.settings.root):
                return verdict
            line = "new, and this shallow clone does not tell if it has lost a baseline (--gpuperf-strict)"
            finding = Finding(Status.INVALID, line, next_step=UNSHALLOW)
        return replace(verdict, status=Status.INVALID, findings=(finding, *verdict.findings))

    def _expected_of_compiled(self, nodeid: str) -> Expected:
        hints = Hints(
            accept=f"if this is intended: {self.static_update_command}",
            no_baseline=f"{self.static_update_command} takes it over",
        )
        file = self.expected.file(nodeid, STATIC_SOURCE)
        return Expected(self.expected.of(nodeid, STATIC_SOURCE), hints=hints, file=file)

    def _is_replayed(self, record: TestRecord) -> bool:
        """Return True for measurements of an earlier run; a replay may compile kernels now."""
        if self.replayed_from is None:
            return False
        kinds = {measurement.is_static for measurement in record.measurements.values()}
        return self.settings.replay != "auto" or kinds != {True}

    def tolerance_pct(self, state: ItemState) -> float:
        """Return a test's accepted slowdown, in percent; the baseline file comes first."""
        baseline = self.expected.of(state.nodeid)
        if baseline is not None and baseline.tolerance_pct is not None:
            return baseline.tolerance_pct
        return state.stated_tolerance_pct or self.settings.tolerance_pct

    def keep_failed(self, state: ItemState, error: BaseException) -> None:
        """Judge the measurements of a test that an exception ended."""
        if state.measurements:
            self.judge(state, type(error).__name__)

    def accept_command(self, _nodeid: str = "") -> str:
        """Return the command that makes the run that has a test the baseline."""
        return "gpuperf baseline accept"

    @property
    def static_update_command(self) -> str:
        """The command that makes the kernels compiled in this run the baseline."""
        return self.accept_command()

    def finish(self, *, complete: bool) -> None:
        """Write the run file, if this way to run keeps one."""

    def check_problems(self) -> None:
        """Report the errors of the run.

        Raises:
            GpuperfError: There are some.
        """
        gpu = self.environment.gpu
        measured = self.results and gpu.slug != NO_GPU.slug and self.settings.update == "never"
        if self.settings.strict and measured and not self.expected.store.suites(gpu.slug):
            self.problems.append(
                f"there is no baseline for {gpu.slug} (--gpuperf-strict); {self.accept_command()} makes one"
            )
        if self.problems:
            raise GpuperfError("; ".join(self.problems))

    def check_judged(self) -> None:
        """Refuse to pass a run that has judged nothing, whoever skipped its tests.

        Raises:
            GpuperfError: No test was judged.
        """
        if not any(one.record.measurements or one.record.sanitizer for one in self.results):
            count, why = len(self.skipped), next(iter(self.skipped.values()), "")
            skipped = f", {count} {'was' if count == 1 else 'were'} skipped: {why}" if count else ""
            raise GpuperfError(f"no test was judged{skipped}")

    @property
    def shown_run(self) -> Run | None:
        """The run that an HTML report names; None if this way to run has none."""
        return self.replayed_from

    @property
    def folder(self) -> Path | None:
        """Folder of the run, with its traces; None if this way to run has none."""
        return None

    def write_json(self, end: End) -> None:
        """Write the verdicts to the file that the user names.

        Raises:
            GpuperfError: The file exists, and this tool has not written it.
            OSError: The file cannot be written.
        """
        from pytest_gpuperf.report.own_files import refuse_other_file
        from pytest_gpuperf.report.verdicts import encode_verdicts, verdicts_of

        if self.settings.json is not None:
            refuse_other_file(self.settings.json, OTHER_FILE)
            verdicts = verdicts_of(self.summary(), end, self.run_id)
            write_files({self.settings.json: encode_verdicts(verdicts)})

    def report(self, terminal: TerminalReporter) -> None:
        """Write the summary to the terminal, and the lines of features."""
        from pytest_gpuperf.report.publish import publish

        summary = self.summary()
        publish(summary, terminal, brief=self.settings.brief)
        for line in (line for lines in registry().log_lines for line in lines(summary)):
            terminal.write_line(line)

    def summary(self) -> Summary:
        """Return the results with all that a report shows."""
        from pytest_gpuperf.report.rows import Summary

        return Summary(
            results=self.results,
            environment=self.environment,
            replayed_from=self.replayed_from,
            counters_unavailable=self.counters_unavailable,
            updated=self.updated,
            notices=self.notices,
            expected_failures=self.expected_failures,
            lines=self.lines,
            root=self.settings.root,
        )

    def _hints(self, nodeid: str) -> Hints:
        update = "pytest --gpuperf --gpuperf-update=new"
        accept = self.accept_command(nodeid)
        makes_one = accept if self.replayed_from is not None else update
        return Hints(
            accept=f"if this is intended: {accept}",
            no_baseline=f"{makes_one} makes one{self.expected.other_gpus}",
        )


def now() -> datetime.datetime:
    """Return the time in UTC."""
    return datetime.datetime.now(datetime.timezone.utc)


RUNNER = pytest.StashKey[Runner]()
