"""What a user sees of a run while it goes on: news, progress, and the seconds of each phase."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from pytest_gpuperf.compat.pytest_names import write_past_capture
from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.measure.device.gpu_lock import GpuLock
    from pytest_gpuperf.session.worker_messages import Link

    Terminal: TypeAlias = "TerminalReporter | RemoteTerminal"


ERROR = "error: "
"""Beginning of an error among the notices."""


class News(msgspec.Struct, tag=True):
    """Facts and errors of a run that no verdict has."""

    notices: list[str] = []
    """Lines about the whole run; errors begin with `ERROR`."""
    failed: bool = False
    """True if one of these errors fails the run."""
    failures: dict[str, str] = {}
    """The first unexpected error of each hook, as a line."""
    no_counters: str = ""
    """Reason why the whole run has no counters; empty if it has, or if no test asks for any."""

    def note(self, *lines: str) -> None:
        """Add facts."""
        self.notices += lines

    def error(self, *lines: object) -> None:
        """Add errors that fail the run."""
        self.notices += [f"{ERROR}{line}" for line in lines]
        self.failed = self.failed or bool(lines)

    def merge(self, other: News) -> None:
        """Add what is newer in the news of a worker."""
        self.notices[:] = dict.fromkeys((*self.notices, *other.notices))
        self.failed = self.failed or other.failed
        self.failures = {**other.failures, **self.failures}
        self.no_counters = other.no_counters


Phase: TypeAlias = Literal["imports", "checks", "code", "times", "counters", "settlement"]
LONG_S = 10.0
"""A shorter run is not worth a line."""


class Phases:
    """Adds up the seconds of each phase; the first launch of a kernel, which compiles it, is in its phase."""

    def __init__(self) -> None:
        self._seconds: dict[Phase, float] = {"imports": _age_s()}

    @contextmanager
    def __call__(self, phase: Phase) -> Iterator[None]:
        """Count the seconds of the block."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + time.monotonic() - begin

    def lines(self) -> list[str]:
        """Return a line about a long run; none about a short one."""
        whole = _age_s()
        parts = [f"{phase} {seconds:.0f}" for phase, seconds in self._seconds.items() if seconds >= 1]
        return [f"seconds: {whole:.0f}, of which {', '.join(parts)}"] if whole >= LONG_S and parts else []


def _age_s() -> float:
    """Return the seconds since this process began; 0 if the system does not tell."""
    try:
        after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    # Field 22 is the start in clock ticks since the boot (proc_pid_stat(5)); the first two are cut off.
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(after_name[19]) / os.sysconf("SC_CLK_TCK")


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

    @contextmanager
    def shown(self, text: str) -> Iterator[None]:
        """Show the present measurement during the block."""
        self.show(text)
        try:
            yield
        finally:
            self.show("")

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

    def __getattr__(self, method: str) -> Callable[..., None]:
        """Return a method of the controller's terminal, or of its `Display`."""
        from pytest_gpuperf.session.worker_messages import TerminalLine

        return lambda *text, **options: self._link.tell(TerminalLine(method, list(text), options))
