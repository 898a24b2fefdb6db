"""Lines that say what a session waits for or does before its tests, for terminals and for logs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.measure.device.lock import Holder

SILENT_S = 1.0
"""A wait for the GPU that is shorter is not worth a line."""


class Progress:
    """Shows how far something is: a line rewritten on a terminal, two lines in a log."""

    def __init__(self, reporter: TerminalReporter | None, what: str) -> None:
        self._reporter = reporter
        self._what = what
        self._begin = time.monotonic()
        self._shown = ""

    def __enter__(self) -> Progress:
        """Say that it begins."""
        if self._reporter is not None:
            self._reporter.ensure_newline()
            if not self._reporter.isatty:
                _log(self._reporter, f"gpuperf: {self._what} ...")
        return self

    def __call__(self, done: int, total: int) -> None:
        """Show a count."""
        self.show(f"{done}/{total}")

    def show(self, where: str) -> None:
        """Show how far it is."""
        text = f"gpuperf: {self._what}: {where}, {time.monotonic() - self._begin:.0f} s"
        if self._reporter is not None and self._reporter.isatty and text != self._shown:
            self._reporter.rewrite(text, erase=True)
            self._shown = text

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say how long it took."""
        if self._reporter is None:
            return
        end = "stopped after" if kind else "done in"
        text = f"gpuperf: {self._what}: {end} {time.monotonic() - self._begin:.1f} s"
        if self._reporter.isatty:
            self._reporter.rewrite(text, erase=True)
            self._reporter.write_line("")
        else:
            _log(self._reporter, text)


class WaitingLine:
    """Shows who has the GPU: a line rewritten on a terminal, one line and its end in a log."""

    def __init__(self, reporter: TerminalReporter | None, gpu: str) -> None:
        self._reporter = reporter
        self._gpu = gpu
        self._begin = time.monotonic()
        self._shown = ""

    def __enter__(self) -> WaitingLine:
        """Say nothing yet."""
        return self

    def __call__(self, holder: Holder) -> None:
        """Show who has it now."""
        if self._reporter is None or time.monotonic() - self._begin < SILENT_S:
            return
        text, before = f"gpuperf: waiting for {self._gpu}: {holder}", self._shown
        # First of all, so that whatever interrupts a write, the end is said too.
        self._shown = text
        if not before:
            self._reporter.ensure_newline()
        if not self._reporter.isatty:
            if not before:
                _log(self._reporter, text)
        elif text != before:
            self._reporter.rewrite(text, erase=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say how long it took, where anything was said."""
        if self._reporter is None or not self._shown:
            return
        waited = f"waited {time.monotonic() - self._begin:.0f} s for {self._gpu}"
        text = f"gpuperf: {waited}{', in vain' if kind else ''}"
        if self._reporter.isatty:
            self._reporter.rewrite(text, erase=True)
            self._reporter.write_line("")
        else:
            _log(self._reporter, text)


def _log(reporter: TerminalReporter, text: str) -> None:
    """Write a line that is seen at once: a buffer would show it when it is over."""
    reporter.write_line(text)
    reporter.flush()
