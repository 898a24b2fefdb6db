"""Hand a run's results to the terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_gpuperf.compat.pytest_names import terminal_columns
from pytest_gpuperf.records.change import printable_lines
from pytest_gpuperf.registry import registry
from pytest_gpuperf.report.brief import brief_lines
from pytest_gpuperf.report.forms.as_text import wrapped
from pytest_gpuperf.report.notices import undecided
from pytest_gpuperf.report.table import Screen
from pytest_gpuperf.report.terminal_table import summary_lines

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.report.rows import Summary

LEAST_COLUMNS = 100
"""Width of a log, which has none of its own."""


def publish(summary: Summary, terminal: TerminalReporter, *, brief: bool = False) -> None:
    """Write the table below pytest's own output, if brief at most ten lines, then the lines of features."""
    _write_table(summary, terminal, brief=brief)
    for line in (line for lines in registry().log_lines for line in lines(summary)):
        terminal.write_line(line)


def _write_table(summary: Summary, terminal: TerminalReporter, *, brief: bool) -> None:
    if brief and summary.results:
        terminal.section("gpuperf")
        for line in brief_lines(summary):
            terminal.write_line(line)
        return
    width = terminal_columns(terminal)
    known = terminal.isatty or "COLUMNS" in os.environ
    columns = width if known else max(width, LEAST_COLUMNS)
    lines = summary_lines(summary, Screen(columns, terminal.hasmarkup), verbosity=terminal.verbosity)
    notices = summary.notices if summary.results else [n for n in summary.notices if n.startswith("error")]
    # They may hold text of files.
    for notice in (*notices, *undecided(summary.results)):
        line = f"gpuperf: {notice}"
        # An error may hold a command to paste.
        is_error = notice.startswith("error")
        lines += [printable_lines(line)] if is_error else wrapped([line], columns)
    if not lines:
        return
    terminal.section("gpuperf")
    for line in lines:
        terminal.write_line(line)
