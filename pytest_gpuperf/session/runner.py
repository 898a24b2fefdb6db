"""The base of the ways to run: a runner answers the calls of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.errors import NoGpuError
    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import StaticKernel
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.records.passes import Invocation
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.session.progress import Terminal
    from pytest_gpuperf.session.run_report import RunReport
    from pytest_gpuperf.session.source import CallSource
    from pytest_gpuperf.settings.settings import Settings


EXAMPLE = "gpuperf(kernel, x, expected=reference)"


class Runner:
    """One way to run `pytest --gpuperf`.

    Args:
        settings: The options.
        source: Answers the calls of the tests: by measuring, from a recording, or with what a pass has read.
            Or the error that each of these calls raises, because there is neither a GPU nor a recording.
        report: Keeps the results; None in a process that profiles or times for another one, which judges.
    """

    on_gpu: ClassVar[bool] = False
    """True if calls run on the GPU of this machine."""
    only: frozenset[str] | None = None
    """Node ids of the tests to run; None for all that pytest selects."""

    def __init__(self, settings: Settings, source: CallSource | NoGpuError, report: RunReport | None) -> None:
        self.settings = settings
        self.source = source
        self.report = report

    def static(self, call: Call) -> dict[str, StaticKernel]:
        """Answer `gpuperf.static`: compile, which needs no GPU. A replay of a named run has it recorded.

        Args:
            call: Compiles for each architecture, and launches nothing.

        Raises:
            GpuperfError: The kernel does not compile, or cannot be launched on one of them.
        """
        kernels: dict[str, StaticKernel] = call()
        return kernels

    def begin(self, states: Sequence[ItemState], invocation: Invocation, terminal: Terminal | None) -> None:
        """Wait until no other run measures on this GPU, then run passes in other processes.

        Args:
            states: The tests.
            invocation: The command that started pytest.
            terminal: Shows the progress.

        Raises:
            GpuperfError: A pass cannot run here.
        """

    def enter(self, nodeid: str) -> None:
        """Note that a test begins."""

    def result(self, state: ItemState, failure: str = "") -> TestResult:
        """Judge a test that has run.

        Args:
            state: Its measurements.
            failure: Type of the exception that ended it; empty if none did.
        """
        assert self.report is not None
        judge = self.report.judge
        record, mistakes = judge.record(state, failure), state.mistakes
        # A test that only asks for the fixture would pass for ever; with a baseline, what it lacks fails it.
        measures = state.called or record.measurements or record.sanitizer or failure or mistakes
        if not measures and not judge.guards(state.nodeid):
            mistakes = [f"the test measured nothing; expected a call such as {EXAMPLE}"]
        return judge.result(record, mistakes)

    def suspects(self, _result: TestResult) -> Sequence[str]:
        """Return the labels of a test that other processes have to settle."""
        return ()

    def settled(self, _state: ItemState, result: TestResult) -> TestResult:
        """Settle the suspects of a test that holds no memory any more, and judge it again."""
        return result

    def end(self) -> None:
        """Let other runs use the GPU."""


RUNNER = pytest.StashKey[Runner]()
