"""The session of the child pytest that runs under ncu."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.records.passes import Event, PassFolder
from pytest_gpuperf.session.child import OPTIONS_OF_A_CHILD, ChildSession

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from pytest_gpuperf.settings.settings import Settings


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
            self._folder.tell(Event(item.nodeid, failure=failure, skipped=report.skipped))
        elif call.when == "call":
            self._folder.tell(Event(item.nodeid))
        return report


class ProfilingSession(ChildSession):
    """Runs the tests of the plan, and writes nothing but its events."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        from pytest_gpuperf.session.profiling_instruments import ProfilingInstruments

        events = PassFolder(folder)
        super().__init__(settings, ProfilingInstruments(events))
        self.only = frozenset(events.read_plan().nodeids)
