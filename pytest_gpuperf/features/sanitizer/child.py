"""The child pytest under compute-sanitizer: every call runs once, between two marks in the tool's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.records.passes import Event, PassFolder
from pytest_gpuperf.session.child_runner import ChildRunner, ChildSource
from pytest_gpuperf.session.marker import STATE, name_of

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.features.sanitizer.marker_launcher import MarkerLauncher
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.settings.settings import Settings


class Marks:
    """Writes marks into the tool's log, and their meaning into the events.

    Args:
        tool: The tool that this process runs under.
        folder: The parent reads the events there.
    """

    def __init__(self, tool: str, folder: PassFolder) -> None:
        self._tool = tool
        self._folder = folder
        self._launcher: MarkerLauncher | None = None
        self._number = 0
        self._nodeid = ""

    def set(self, nodeid: str, label: str = "") -> None:
        """Assign all later launches to a test, and to one of its calls if a label is given.

        Earlier kernels have ended by then. If one of them has ended the CUDA context, this process ends:
        nothing can be launched any more. Another process runs the remaining tests.
        """
        from pytest_gpuperf.features.sanitizer.marker_launcher import MarkerLauncher
        from pytest_gpuperf.features.sanitizer.markers import marker_name

        try:
            if self._launcher is None:
                self._launcher = MarkerLauncher(self._tool)
            self._launcher.launch(marker_name(self._number + 1))
        except RuntimeError as error:
            what = "it ended the CUDA context" if self._number else "CUDA does not start"
            failure = f"{what}: {str(error).partition(chr(10))[0]}"
            self._folder.tell(Event(self._nodeid, failure=failure))
            pytest.exit(f"gpuperf: {self._nodeid}: {failure}")
        self._number += 1
        self._nodeid = nodeid
        self._folder.tell(Event(nodeid, label, marker_name(self._number)))


class SanitizingSource(ChildSource):
    """Runs each call once on its own arguments."""

    runs_for = ("check", "warm_up", "time", "profile", "trace")
    warm_up_calls = 1

    def __init__(self, marks: Marks) -> None:
        self._marks = marks

    def _run(self, call: Call) -> None:
        self._marks.set(call.nodeid, call.label)
        try:
            call()
        finally:
            self._marks.set(call.nodeid)


class SanitizingRunner(ChildRunner):
    """Runs the tests of the plan, and marks the beginning of each in the tool's log."""

    def __init__(self, settings: Settings, path: Path) -> None:
        folder = PassFolder(path)
        self._marks = Marks(settings.sanitize, folder)
        super().__init__(settings, SanitizingSource(self._marks), folder.read_plan().nodeids)
        self._began = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Mark the beginning of a test that measures; the launches of its teardown belong to it, too."""
        if STATE in item.stash:
            self._marks.set(name_of(item))
            self._began = True

    def end(self) -> None:
        """Mark the end of the last test."""
        if self._began:
            self._marks.set("")
