"""The session of the child pytest that runs under ncu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.counters.plan import Event, PassFolder
from pytest_gpuperf.records import Environment, GpuInfo, TestRecord, Toolchain
from pytest_gpuperf.session.base import Session
from pytest_gpuperf.verdict.result import Status, TestResult, TestVerdict

if TYPE_CHECKING:
    from pathlib import Path

    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.item_state import ItemState
    from pytest_gpuperf.options import Settings


class ProfilingSession(Session):
    """Runs the tests of the plan, judges nothing and writes nothing but its events."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        from pytest_gpuperf.instruments.profiling import ProfilingInstruments

        self._folder = PassFolder(folder)
        nowhere = Environment(gpu=GpuInfo(name="", slug=""), toolchain=Toolchain())
        super().__init__(settings, ProfilingInstruments(self._folder), nowhere)
        self.only = frozenset(self._folder.read_plan().nodeids)

    def expect(self, nodeid: str) -> None:
        """The session that started this process has read the baselines."""

    def judge(self, state: ItemState, failure: str = "") -> TestResult:
        """Say that the test is done."""
        self._folder.tell(Event(state.nodeid, failure="; ".join((failure, *state.errors)).strip("; ")))
        record = TestRecord(nodeid=state.nodeid, measurements={})
        return TestResult(record, TestVerdict(Status.PASS))

    def keep_failed(self, state: ItemState, error: BaseException) -> None:
        """Say why the test ended early."""
        self.judge(
            state, f"it ended with {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        )

    def properties(self, result: TestResult) -> list[tuple[str, object]]:  # noqa: ARG002
        """None: no JUnit file is made of this process."""
        return []

    def report(self, terminal: TerminalReporter) -> None:
        """Nothing to say."""
