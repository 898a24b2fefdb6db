"""A line that says what a session does before its tests, for terminals and for logs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from _pytest.terminal import TerminalReporter


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
                self._reporter.write_line(f"gpuperf: {self._what} ...")
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
            self._reporter.write_line(text)
