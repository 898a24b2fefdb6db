"""The session of the child pytest that runs under ncu."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.counters.plan import Event, PassFolder
from pytest_gpuperf.records import Environment, GpuInfo, TestRecord, Toolchain
from pytest_gpuperf.session.base import Session
from pytest_gpuperf.verdict.result import Status, TestResult, TestVerdict

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.item_state import ItemState
    from pytest_gpuperf.options import Settings

OPTIONS_OF_A_CHILD: Mapping[str, object] = {
    # Nobody can answer a debugger here.
    "usepdb": False,
    "trace": False,
    # A test that fails leaves the others to be profiled.
    "maxfail": 0,
    "stepwise": False,
    "stepwise_skip": False,
    "stepwise_reset": False,
    # Files that the session that started this process has open.
    "xmlpath": None,
    "log_file": os.devnull,
    "color": "no",
}
"""What the child does not take from the command line that it shares with its session, by pytest's `dest`."""


def prepare_child(config: pytest.Config, folder: Path) -> None:
    """Make a pytest one that runs under ncu: before other plugins read their options.

    Args:
        config: The child's.
        folder: The profiling pass.
    """
    vars(config.option).update(OPTIONS_OF_A_CHILD)
    config.pluginmanager.register(EventWriter(PassFolder(folder)), "gpuperf-events")


class EventWriter:
    """Tells the session how each phase of each test ended."""

    def __init__(self, folder: PassFolder) -> None:
        self._folder = folder

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Tell that the test has run, or what ended its set-up, call or teardown early."""
        report = yield
        if call.excinfo is not None:
            reason = str(call.excinfo.value).partition("\n")[0]
            failure = f"its {call.when} ended with {call.excinfo.typename}: {reason}"
            self._folder.tell(Event(item.nodeid, failure=failure))
        elif call.when == "call":
            self._folder.tell(Event(item.nodeid))
        return report


class ProfilingSession(Session):
    """Runs the tests of the plan, judges nothing and writes nothing but its events."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        from pytest_gpuperf.instruments.profiling import ProfilingInstruments

        events = PassFolder(folder)
        nowhere = Environment(gpu=GpuInfo(name="", slug=""), toolchain=Toolchain())
        super().__init__(settings, ProfilingInstruments(events), nowhere)
        self.only = frozenset(events.read_plan().nodeids)

    def expect(self, nodeid: str) -> None:
        """The session that started this process has read the baselines."""

    def check_metrics(self, states: Sequence[ItemState]) -> None:
        """The session that started this process has checked them."""

    def judge(self, state: ItemState, failure: str = "") -> TestResult:  # noqa: ARG002
        """Judge nothing, and keep nothing."""
        record = TestRecord(nodeid=state.nodeid, measurements={})
        return TestResult(record, TestVerdict(Status.PASS))

    def properties(self, result: TestResult) -> list[tuple[str, object]]:  # noqa: ARG002
        """None: no JUnit file is made of this process."""
        return []

    def report(self, terminal: TerminalReporter) -> None:
        """Nothing to say."""
