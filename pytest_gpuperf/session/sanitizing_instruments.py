"""Instruments of the child that runs under compute-sanitizer: every call runs once, between two marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.measure.sanitizer.marker_launcher import MarkerLauncher
from pytest_gpuperf.measure.sanitizer.markers import marker_name
from pytest_gpuperf.records import WarmUp
from pytest_gpuperf.records.passes import Event, PassFolder
from pytest_gpuperf.session.child_instruments import ANY_NUMBER, ChildInstruments

if TYPE_CHECKING:
    from pytest_gpuperf.records import Correctness, Profile, Timing, Trace
    from pytest_gpuperf.records.call import Call, Reference
    from pytest_gpuperf.records.selection import Selection


class Marks:
    """Marks in the tool's log, and what they mean among the events of the folder.

    Args:
        tool: The tool that this process runs under.
        folder: Where the session reads what this process did.
    """

    def __init__(self, tool: str, folder: PassFolder) -> None:
        self._tool = tool
        self._folder = folder
        self._launcher: MarkerLauncher | None = None
        self._number = 0
        self._nodeid = ""

    def set(self, nodeid: str, label: str = "") -> None:
        """From here on what is launched belongs to a test, and to a call of it where a label is given.

        The kernels of before have ended then. Where one of them has ended the CUDA context, this process
        ends: nothing can be launched any more, and another process runs the tests that are left.
        """
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


class SanitizingInstruments(ChildInstruments):
    """Runs each call once on its own arguments."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks

    def _run(self, call: Call) -> None:
        self._marks.set(call.nodeid, call.label)
        try:
            call()
        finally:
            self._marks.set(call.nodeid)

    def check(self, call: Call, reference: Reference) -> Correctness:
        """One call."""
        self._run(call)
        return super().check(call, reference)

    def warm_up(self, call: Call) -> WarmUp:
        """One call."""
        self._run(call)
        return WarmUp(seconds=ANY_NUMBER, launches=1, steady=True)

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        """One call."""
        self._run(call)
        return super().time(call, mode=mode, bytes=bytes, flops=flops)

    def profile(self, call: Call, *, kernels: Selection, metrics: tuple[str, ...]) -> Profile:
        """One call."""
        self._run(call)
        return super().profile(call, kernels=kernels, metrics=metrics)

    def trace(self, call: Call) -> Trace:
        """One call."""
        self._run(call)
        return super().trace(call)
