"""What is being measured right now, on the line below pytest's own."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

# IND and RI make sure that there is a line below without moving the cursor; DECSC and DECRC come back to it.
_BELOW = "\x1bD\x1bM\x1b7\x1b[B\r\x1b[2K"
_BACK = "\x1b8"


class StatusLine:
    """A line on a terminal that is gone when the measurement is; nothing in a log.

    pytest writes its dots and names without a newline, so that line must not be touched.
    """

    def __init__(self, reporter: TerminalReporter | None) -> None:
        usable = reporter is not None and reporter.isatty and os.environ.get("TERM", "dumb") != "dumb"
        self._reporter = reporter if usable else None

    def show(self, text: str) -> None:
        """Replace the line; an empty text clears it."""
        if self._reporter is None:
            return
        writer = self._reporter._tw
        # While a test runs, what is written to the terminal's file is captured.
        capture = self._reporter.config.pluginmanager.get_plugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
            writer._file.write(f"{_BELOW}{text[: writer.fullwidth - 1]}{_BACK}")
            writer.flush()
