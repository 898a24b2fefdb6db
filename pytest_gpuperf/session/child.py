"""What the child pytests of a session have in common: they measure, and judge nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_gpuperf.judge.result import Status, TestResult, TestVerdict
from pytest_gpuperf.records import Environment, GpuInfo, TestRecord, Toolchain
from pytest_gpuperf.session.base import Session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.session.base_instruments import Instruments
    from pytest_gpuperf.session.marker import ItemState
    from pytest_gpuperf.settings.settings import Settings

OPTIONS_OF_A_CHILD: Mapping[str, object] = {
    # Nobody can answer a debugger here.
    "usepdb": False,
    "trace": False,
    # A test that fails leaves the others to be profiled.
    "maxfail": 0,
    "stepwise": False,
    "stepwise_skip": False,
    "stepwise_reset": False,
    # What failed last time is known to the session, which says what to run.
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "cacheclear": False,
    # Files that the session that started this process has open.
    "xmlpath": None,
    "log_file": os.devnull,
    "color": "no",
}
"""What the child does not take from the command line that it shares with its session, by pytest's `dest`."""


class ChildSession(Session):
    """Runs tests for the session that started this process, which reads baselines, judges and reports."""

    def __init__(self, settings: Settings, instruments: Instruments) -> None:
        nowhere = Environment(gpu=GpuInfo(name="", slug=""), toolchain=Toolchain())
        super().__init__(settings, instruments, nowhere)

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
