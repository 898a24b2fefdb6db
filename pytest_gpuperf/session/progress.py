"""Lines about waiting and progress, on terminals and in logs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeAlias

from pytest_gpuperf.compat.pytest_names import write_past_capture
from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.measure.device.lock import GpuLock, Holder
    from pytest_gpuperf.session.link import Link
    from pytest_gpuperf.session.news import News

    Terminal: TypeAlias = "TerminalReporter | RemoteTerminal"

SILENT_S = 1.0
"""A shorter wait for the GPU is not worth a line."""

# IND and RI make sure that there is a line below without moving the cursor; DECSC and DECRC come back to it.
_BELOW = "\x1bD\x1bM\x1b7\x1b[B\r\x1b[2K"
_BACK = "\x1b8"


class _Line:
    """A line that is rewritten on a terminal; a log has its first and its last text."""

    def __init__(self, terminal: Terminal | None) -> None:
        self._terminal = terminal
        self._begin = time.monotonic()
        self._shown = ""

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._begin

    def _show(self, text: str, *, in_log: bool = False) -> None:
        if self._terminal is None:
            return
        if self._terminal.isatty:
            if text != self._shown:
                self._terminal.rewrite(text, erase=True)
        elif in_log:
            # A buffer would show it only after the wait.
            self._terminal.write_line(text)
            self._terminal.flush()
        self._shown = text

    def _end(self, text: str) -> None:
        self._show(text, in_log=True)
        if self._terminal is not None and self._terminal.isatty:
            self._terminal.write_line("")


class Progress(_Line):
    """Shows the progress of a pass: a line rewritten on a terminal, two lines in a log."""

    def __init__(self, terminal: Terminal | None, what: str) -> None:
        super().__init__(terminal)
        self._what = what

    def __enter__(self) -> Progress:
        """Show that it begins."""
        if self._terminal is not None:
            self._terminal.ensure_newline()
            if not self._terminal.isatty:
                self._show(f"gpuperf: {self._what} ...", in_log=True)
        return self

    def __call__(self, where: str) -> None:
        """Show how far it is."""
        self._show(f"gpuperf: {self._what}: {where}, {self._seconds:.0f} s")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Show how long it took."""
        self._end(f"gpuperf: {self._what}: {'stopped after' if kind else 'done in'} {self._seconds:.1f} s")


class WaitingLine(_Line):
    """Shows who has the GPU: a line rewritten on a terminal, two lines in a log."""

    def __init__(self, terminal: Terminal | None, gpu: str) -> None:
        super().__init__(terminal)
        self._gpu = gpu

    def __enter__(self) -> WaitingLine:
        """Show nothing yet."""
        return self

    def __call__(self, holder: Holder) -> None:
        """Show who has the GPU now."""
        if self._terminal is None or self._seconds < SILENT_S:
            return
        first = not self._shown
        if first:
            # Set before, so that the end is shown even if a write is interrupted.
            self._shown = " "
            self._terminal.ensure_newline()
        self._show(f"gpuperf: waiting for {self._gpu}: {holder}", in_log=first)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Show how long it took, if anything was shown."""
        if self._shown:
            waited = f"waited {self._seconds:.0f} s for {self._gpu}"
            self._end(f"gpuperf: {waited}{', then stopped' if kind else ''}")


def wait_for(lock: GpuLock, terminal: Terminal | None, news: News) -> None:
    """Wait until no other run measures on a GPU; if that cannot be known, go on with a notice."""
    try:
        with WaitingLine(terminal, lock.gpu) as waiting:
            lock.acquire(waiting)
    except GpuperfError as error:
        news.note(f"not locked: {error}; another run could measure at the same time")


class StatusLine:
    """Shows the present measurement on the line below pytest's own; nothing in a log.

    pytest writes its dots and names without a newline, so its line must not be touched.
    """

    def __init__(self, reporter: Terminal | None) -> None:
        usable = reporter is not None and reporter.isatty and os.environ.get("TERM", "dumb") != "dumb"
        self._reporter = reporter if usable else None

    def show(self, text: str) -> None:
        """Replace the line; an empty text clears it."""
        if self._reporter is None:
            return
        if isinstance(self._reporter, RemoteTerminal):
            self._reporter.show(text)
            return
        write_past_capture(self._reporter, lambda columns: f"{_BELOW}{text[: columns - 1]}{_BACK}")


class RemoteTerminal:
    """The controller's terminal, for lines about waiting and progress.

    Args:
        link: Leads to the controller.
    """

    def __init__(self, link: Link) -> None:
        self.isatty = link.orders.isatty
        self._link = link

    def _tell(self, method: str, text: str = "") -> None:
        from pytest_gpuperf.session.link import Printed

        self._link.tell(Printed(method, text))

    def ensure_newline(self) -> None:
        """Begin a new line."""
        self._tell("ensure_newline")

    def write_line(self, text: str) -> None:
        """Write a line."""
        self._tell("write_line", text)

    def rewrite(self, text: str, *, erase: bool) -> None:
        """Replace the present line."""
        assert erase
        self._tell("rewrite", text)

    def show(self, text: str) -> None:
        """Replace the line below the present one."""
        self._tell("show", text)

    def flush(self) -> None:
        """Do nothing: the controller flushes each line."""
