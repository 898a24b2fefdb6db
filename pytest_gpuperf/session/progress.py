"""Lines about waiting and progress, on terminals and in logs."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from pytest_gpuperf.compat.pytest_names import write_past_capture
from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.measure.device.gpu_lock import GpuLock
    from pytest_gpuperf.session.news import News
    from pytest_gpuperf.session.worker_messages import Link

    Terminal: TypeAlias = "TerminalReporter | RemoteTerminal"

SILENT_S = 1.0
"""A shorter wait for the GPU is not worth a line."""

# IND and RI make sure that there is a line below without moving the cursor; DECSC and DECRC come back to it.
_BELOW = "\x1bD\x1bM\x1b7\x1b[B\r\x1b[2K"
_BACK = "\x1b8"


class Progress:
    """Shows what takes long: a line rewritten on a terminal, two lines in a log.

    Args:
        terminal: Shows the line; None for nobody.
        what: What takes long.
        quiet_s: Seconds in which nothing is shown: what ends sooner is not worth a line.
    """

    def __init__(self, terminal: Terminal | None, what: str, quiet_s: float = 0.0) -> None:
        self._terminal = terminal
        self._what = what
        self._quiet_s = quiet_s
        self._begin = time.monotonic()
        self._shown = ""

    def __enter__(self) -> Progress:
        """Show that it begins."""
        if not self._quiet_s:
            self._start(" ...")
        return self

    def __call__(self, where: object) -> None:
        """Show how far it is, or what it waits for."""
        seconds = time.monotonic() - self._begin
        if self._terminal is None or seconds < self._quiet_s:
            return
        if not self._shown:
            self._start(f": {where}")
        text = f"gpuperf: {self._what}: {where}" + ("" if self._quiet_s else f", {seconds:.0f} s")
        if self._terminal.isatty and text != self._shown:
            self._terminal.rewrite(text, erase=True)
            self._shown = text

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Show how long it took, if anything was shown."""
        if self._terminal is None or not self._shown:
            return
        ended = "stopped after" if kind else "done in"
        text = f"gpuperf: {self._what}: {ended} {time.monotonic() - self._begin:.1f} s"
        if self._terminal.isatty:
            self._terminal.rewrite(text, erase=True)
            self._terminal.write_line("")
        else:
            self._log(text)

    def _start(self, text: str) -> None:
        # Set before, so that the end is shown even if a write is interrupted.
        self._shown = " "
        if self._terminal is not None:
            self._terminal.ensure_newline()
            if not self._terminal.isatty:
                self._log(f"gpuperf: {self._what}{text}")

    def _log(self, text: str) -> None:
        assert self._terminal is not None
        self._terminal.write_line(text)
        # A buffer would show it only after the wait.
        self._terminal.flush()


class Display:
    """Shows what a run does and waits for.

    Args:
        news: What a reader of the run should know.
        terminal: Shows the lines; None for nobody.
    """

    def __init__(self, news: News, terminal: Terminal | None = None) -> None:
        self.news = news
        self.terminal = terminal

    def show(self, text: str) -> None:
        """Show the present measurement on the line below pytest's own; an empty text clears that line.

        A log has no such line. pytest writes its dots and names without a newline, so its line must not be
        touched.
        """
        terminal = self.terminal
        if terminal is None or not terminal.isatty or os.environ.get("TERM", "dumb") == "dumb":
            return
        if isinstance(terminal, RemoteTerminal):
            terminal.show(text)
        else:
            write_past_capture(terminal, lambda columns: f"{_BELOW}{text[: columns - 1]}{_BACK}")

    def progress(self, what: str) -> Progress:
        """Begin a line about what takes long."""
        return Progress(self.terminal, what)

    @contextmanager
    def alone(self, lock: GpuLock) -> Iterator[None]:
        """Let no other run measure on a GPU during the block."""
        self.wait_for(lock)
        try:
            yield
        finally:
            lock.release()

    def wait_for(self, lock: GpuLock) -> None:
        """Wait until no other run measures on a GPU; if that cannot be known, go on with a notice."""
        try:
            with Progress(self.terminal, f"waiting for {lock.gpu}", SILENT_S) as waiting:
                lock.acquire(waiting)
        except GpuperfError as error:
            self.news.note(f"not locked: {error}; another run could measure at the same time")


class RemoteTerminal:
    """The controller's terminal, for lines about waiting and progress.

    Args:
        link: Leads to the controller.
    """

    def __init__(self, link: Link) -> None:
        self.isatty = link.orders.isatty
        self._link = link

    def _tell(self, method: str, text: str = "") -> None:
        from pytest_gpuperf.session.worker_messages import TerminalLine

        self._link.tell(TerminalLine(method, text))

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
