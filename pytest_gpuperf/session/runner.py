"""The base of the ways to run, and of the sources that answer the calls of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from pytest_gpuperf.errors import NoGpuError
    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import (
        AgainstTiming,
        Correctness,
        Fuzzing,
        LaunchedCode,
        Profile,
        StaticKernel,
        Timing,
        Trace,
        WarmUp,
    )
    from pytest_gpuperf.records.call import Call, FuzzCall, Selection
    from pytest_gpuperf.records.passes import Invocation
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.session.progress import Terminal
    from pytest_gpuperf.session.run_report import RunReport
    from pytest_gpuperf.settings.settings import Settings


class CallSource(Protocol):
    """The source of the measurements: each method answers one method of the `gpuperf` fixture.

    Raises:
        GpuperfError: Its methods, if the test has to be changed.
    """

    def check(self, call: Call) -> Correctness:
        """Compare the call's output with its reference."""

    def fuzz(self, call: FuzzCall) -> Fuzzing:
        """Compare the function with its reference on generated arguments."""

    def warm_up(self, call: Call) -> WarmUp:
        """Run the call until its time is steady."""

    def code(self, call: Call) -> LaunchedCode | None:
        """Hash the code of the kernels that the call launches; None if nobody looks for it."""

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        """Time the call."""

    def in_turn(self, first: Call, other: Call, *, mode: str) -> AgainstTiming:
        """Time two calls with the same arguments in turn."""

    def profile(self, call: Call, kernels: Selection) -> Profile:
        """Read the counters of the selected launches of the call."""

    def trace(self, call: Call) -> Trace:
        """Record the kernels that one call runs."""


class Processes(Protocol):
    """Processes of a feature that share the GPU of the run."""

    @property
    def alive(self) -> bool:
        """True if there are any."""

    def end(self) -> None:
        """End them."""


class Start(NamedTuple):
    """Start of the tests in this process."""

    own: Container[str]
    """Node ids of the tests that this process was given at the start, which the passes cover."""
    invocation: Invocation
    """The command that started pytest."""
    terminal: Terminal | None
    """Shows the progress."""


class Runner:
    """One way to run `pytest --gpuperf`. This class is that without a GPU and a recording: it only compiles.

    Args:
        settings: The options.
        source: Answers the calls of the tests: by measuring, from a recording, or with what a pass has read.
            Or, if nothing can, the error that each of these calls raises.
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
        """Answer `gpuperf.static`: compile, which needs neither a GPU nor a source.

        Args:
            call: Compiles for each architecture, and launches nothing.

        Raises:
            GpuperfError: The kernel does not compile, or cannot be launched on one of them.
        """
        kernels: dict[str, StaticKernel] = call()
        return kernels

    def begin(self, states: Sequence[ItemState], start: Start) -> None:
        """Get ready, once all tests are selected.

        Args:
            states: All selected tests that are judged; those of this process are in `start.own`.
            start: The start of the tests.

        Raises:
            GpuperfError: A pass cannot run here.
        """

    def judge(self, state: ItemState, failure: str = "") -> TestResult:
        """Judge a test that has run.

        Args:
            state: Its measurements.
            failure: Type of the exception that ended it; empty if none did.
        """
        assert self.report is not None
        return self.report.judge.test(state, failure)

    def settle(self, _state: ItemState, result: TestResult) -> TestResult:
        """Settle the suspects of a test that holds no memory any more, and judge it again, if it can."""
        return result

    def end(self) -> None:
        """Let other runs use the GPU."""


RUNNER = pytest.StashKey[Runner]()
