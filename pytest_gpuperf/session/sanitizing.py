"""The session of the child pytest that runs under compute-sanitizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.records.passes import PassFolder
from pytest_gpuperf.session.child import ChildSession

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.settings.settings import Settings


class SanitizingSession(ChildSession):
    """Runs the tests of the plan, and marks in the tool's log where each begins and its calls are."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        from pytest_gpuperf.session.sanitizing_instruments import Marks, SanitizingInstruments

        events = PassFolder(folder)
        self._marks = Marks(settings.sanitize, events)
        super().__init__(settings, SanitizingInstruments(self._marks))
        self.only = frozenset(events.read_plan().nodeids)
        self._began = False

    def enter(self, nodeid: str) -> None:
        """Mark the beginning of a test; what its teardown launches belongs to it, too."""
        self._marks.set(nodeid)
        self._began = True

    def end(self) -> None:
        """Mark the end of the last one."""
        if self._began:
            self._marks.set("")
