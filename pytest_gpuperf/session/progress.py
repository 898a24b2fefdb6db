"""Lines about waiting and progress, on terminals and in logs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeAlias

from pytest_gpuperf.compat.pytest_names import write_past_capture
from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from types import TracebackType

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


class Progress:
    """Shows the progress of a pass: a line rewritten on a terminal, two lines in a log."""

    def __init__(self, reporter: Terminal | None, what: str) -> None:
        self._reporter = reporter
        self._what = what
        self._begin = time.monotonic()
        self._shown = ""

    def __enter__(self) -> Progress:
        """Show that it begins."""
        if self._reporter is not None:
            self._reporter.ensure_newline()
            if not self._reporter.isatty:
                _log(self._reporter, f"gpuperf: {self._what} ...")
        return self

    def __call__(self, where: str) -> None:
        """Show how far it is."""
        text = f"gpuperf: {self._what}: {where}, {time.monotonic() - self._begin:.0f} s"
        if self._reporter is not None and self._reporter.isatty and text != self._shown:
            self._reporter.rewrite(text, erase=True)
            self._shown = text

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Show how long it took."""
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
    """Shows who has the GPU: a line rewritten on a terminal, two lines in a log."""

    def __init__(self, reporter: Terminal | None, gpu: str) -> None:
        self._reporter = reporter
        self._gpu = gpu
        self._begin = time.monotonic()
        self._shown = ""

    def __enter__(self) -> WaitingLine:
        """Show nothing yet."""
        return self

    def __call__(self, holder: Holder) -> None:
        """Show who has the GPU now."""
        if self._reporter is None or time.monotonic() - self._begin < SILENT_S:
            return
        text, before = f"gpuperf: waiting for {self._gpu}: {holder}", self._shown
        # Set first, so that the end is shown even if a write is interrupted.
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
        """Show how long it took, if anything was shown."""
        if self._reporter is None or not self._shown:
            return
        waited = f"waited {time.monotonic() - self._begin:.0f} s for {self._gpu}"
        text = f"gpuperf: {waited}{', then stopped' if kind else ''}"
        if self._reporter.isatty:
            self._reporter.rewrite(text, erase=True)
            self._reporter.write_line("")
        else:
            _log(self._reporter, text)


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


def _log(reporter: Terminal, text: str) -> None:
    """Write a line and flush it: a buffer would show it only after the wait."""
    reporter.write_line(text)
    reporter.flush()
