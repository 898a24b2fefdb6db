"""One object for each run of `pytest --gpuperf`: instruments, records and verdicts."""

from __future__ import annotations

import datetime
import shlex
from typing import TYPE_CHECKING

from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.result import Hints, TestResult
from pytest_gpuperf.judge.verdict import Expected, judge
from pytest_gpuperf.measure.counters.metric_names import check_names
from pytest_gpuperf.measure.sanitizer.wording import errors_of
from pytest_gpuperf.measure.static.kernel import SOURCE
from pytest_gpuperf.metrics.chips import chip_of
from pytest_gpuperf.records import TestRecord
from pytest_gpuperf.records.runs import STATE_FOLDER
from pytest_gpuperf.session.expectations import Expectations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.records import Environment, Run, SanitizerResult
    from pytest_gpuperf.report.publish import Summary
    from pytest_gpuperf.session.base_instruments import Instruments
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.settings.settings import Settings


class Session:
    """Judges what the tests of one run measure. Subclasses say where measurements come from.

    Args:
        settings: The options.
        instruments: Answer the fixtures' calls.
        environment: GPU and toolchain that the measurements belong to.
        replayed_from: The newest of the recorded runs, when nothing is measured.
    """

    def __init__(
        self,
        settings: Settings,
        instruments: Instruments,
        environment: Environment,
        replayed_from: Run | None = None,
    ) -> None:
        self.settings = settings
        self.instruments = instruments
        self.environment = environment
        self.replayed_from = replayed_from
        self.counters_unavailable = ""
        self.notices: list[str] = []
        self.updated = False
        """Whether this run has become the baseline."""
        self.expected_failures: set[str] = set()
        """Tests that failed as they were expected to."""
        self.lines: dict[str, int] = {}
        """Line of each selected test in its file."""
        self.sanitized: dict[str, SanitizerResult] = {}
        """What compute-sanitizer found, by node id."""
        self.problems: list[str] = []
        """What is wrong with the run, and no test's fault."""
        self._results: dict[str, TestResult] = {}
        self.only: frozenset[str] | None = None
        """Node ids to which the run is restricted; None for all that pytest selects."""
        store = BaselineStore(settings.baselines, state=settings.root / STATE_FOLDER)
        self.expected = Expectations(store, environment.gpu)

    @property
    def results(self) -> list[TestResult]:
        """What was judged, in the order of the run; of a test that ran again the last."""
        return list(self._results.values())

    def expect(self, nodeid: str) -> None:
        """Learn of a selected test; reads its suite's baseline.

        Raises:
            GpuperfError: The baseline file is broken, of a newer schema, or for another GPU.
        """
        self.expected.add(nodeid)

    def begin(self, reporter: TerminalReporter | None) -> None:
        """Wait until the GPU is ours, where one is measured."""

    def enter(self, nodeid: str) -> None:
        """Learn that a test begins."""

    def end(self) -> None:
        """Let others have the GPU."""

    def check_metrics(self, states: Sequence[ItemState]) -> None:
        """Refuse metrics that the GPU does not have, before anything runs.

        Raises:
            GpuperfError: A marker, an option or a limit names one.
        """
        names = [
            name for state in states for name in (*state.marker.metrics, *self.expected.limited(state.nodeid))
        ]
        chip = chip_of(self.environment.gpu.compute_capability)
        check_names([*self.settings.metrics, *names], chip.name if chip else "")

    def read_counters(
        self,
        states: Sequence[ItemState],
        arguments: Sequence[str],
        cwd: Path,
        reporter: TerminalReporter | None,
    ) -> None:
        """Read the counters of all selected tests, where that is done ahead."""

    def pair(
        self,
        states: Sequence[ItemState],
        paths: Mapping[str, Path],
        arguments: Sequence[str],
        cwd: Path,
        reporter: TerminalReporter | None,
    ) -> None:
        """Time all selected tests in turn with old code, where that is asked for.

        Args:
            states: The tests.
            paths: Their files, by node id.
            arguments: The command line.
            cwd: Where it was typed.
            reporter: Shows how far it is.

        Raises:
            GpuperfError: Old and new code cannot be run side by side.
        """

    def may_run(self, nodeid: str) -> bool:
        """Whether nothing is known against a test: one that writes where it must not would harm others."""
        result = self.sanitized.get(nodeid)
        return result is None or not (result.count or result.unchecked)

    def judge(self, state: ItemState, failure: str = "") -> TestResult:
        """Judge a test that has run, and keep the result.

        Args:
            state: What it measured.
            failure: Type of the exception that ended it.
        """
        baseline = self.expected.of(state.nodeid)
        sanitized = self.sanitized.get(state.nodeid)
        record = TestRecord(
            nodeid=state.nodeid,
            measurements=dict(state.measurements),
            failure=failure,
            tolerance_pct=state.marker.tolerance_pct or 0.0,
            sanitizer=sanitized,
        )
        verdict = judge(
            record,
            limits=(*state.marker.limits, *state.limits),
            measured=Expected(
                baseline,
                self.expected.gate,
                self.tolerance_pct(state),
                self._hints(state.nodeid),
                self.expected.file(state.nodeid),
            ),
            compiled=self._expected_of_compiled(state.nodeid),
            errors=[*(errors_of(sanitized) if sanitized else ()), *state.errors],
            strict=self.settings.strict,
        )
        result = TestResult(record, verdict, replayed=self.is_replayed(record))
        self._results[state.nodeid] = result
        return result

    def _expected_of_compiled(self, nodeid: str) -> Expected:
        hints = Hints(
            accept=f"where this is meant: {self.static_update_command}",
            no_baseline=f"{self.static_update_command} takes it over",
        )
        file = self.expected.file(nodeid, SOURCE)
        return Expected(self.expected.of(nodeid, SOURCE), hints=hints, file=file)

    def is_replayed(self, record: TestRecord) -> bool:  # noqa: ARG002
        """Whether it was recorded before this session."""
        return False

    def tolerance_pct(self, state: ItemState) -> float:
        """The slowdown of a test that is accepted, in per cent: the baseline file's word comes first."""
        baseline = self.expected.of(state.nodeid)
        if baseline is not None and baseline.tolerance_pct is not None:
            return baseline.tolerance_pct
        return state.marker.tolerance_pct or self.settings.tolerance_pct

    def keep_failed(self, state: ItemState, error: BaseException) -> None:
        """Keep what a test measured before an exception ended it."""
        if state.measurements:
            self.judge(state, type(error).__name__)

    @property
    def accept_command(self) -> str:
        """What to type to make this run the baseline."""
        return "gpuperf baseline accept"

    @property
    def static_update_command(self) -> str:
        """What to type to make what this run compiled the baseline."""
        return self.accept_command

    def properties(self, result: TestResult) -> list[tuple[str, object]]:
        """What JUnit files say of a test."""
        from pytest_gpuperf.report.junit import properties

        return list(properties(result))

    def finish(self, *, complete: bool) -> None:
        """Write what is to be kept of the run."""

    def check_problems(self) -> None:
        """Say what is wrong with the run.

        Raises:
            GpuperfError: Something is.
        """
        if self.problems:
            raise GpuperfError("; ".join(self.problems))

    def write_markdown(self) -> None:
        """Append the summary as Markdown to the file that the user or GitHub names.

        Raises:
            OSError: The file cannot be written.
        """
        from pytest_gpuperf.report.publish import write_markdown

        write_markdown(self._summary(), self.settings.markdown)

    def report(self, terminal: TerminalReporter) -> None:
        """Write the summary to the terminal, and GitHub's annotations."""
        from pytest_gpuperf.report.publish import publish

        publish(self._summary(), terminal)

    def _summary(self) -> Summary:
        from pytest_gpuperf.report.publish import Summary

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
        quoted = shlex.quote(nodeid)
        update = "pytest --gpuperf --gpuperf-update=new"
        makes_one = self.accept_command if self.replayed_from is not None else update
        return Hints(
            accept=f"where this is meant: {self.accept_command}",
            accept_pin="where this is meant: gpuperf baseline pin",
            no_baseline=f"{makes_one} makes one{self.expected.other_gpus}",
            closer=f"to look closer: pytest --gpuperf --gpuperf-against=REF {quoted}",
            more_sessions="to see smaller changes: gpuperf baseline record --sessions 5",
        )


def now() -> datetime.datetime:
    """The time, in UTC."""
    return datetime.datetime.now(datetime.timezone.utc)
