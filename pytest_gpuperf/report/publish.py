"""Hand a run's results to the terminal, to the Markdown summary and to GitHub."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.compat.pytest_names import terminal_columns
from pytest_gpuperf.features.github.annotations import error_annotations
from pytest_gpuperf.features.github.step_summary import summary_markdown
from pytest_gpuperf.records.writing import named
from pytest_gpuperf.report.brief import brief_lines
from pytest_gpuperf.report.notices import undecided
from pytest_gpuperf.report.table import Screen
from pytest_gpuperf.report.terminal import summary_lines

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.report.rows import Summary

LEAST_COLUMNS = 100
"""Width of a log, which has none of its own."""


def publish(summary: Summary, terminal: TerminalReporter, *, brief: bool = False) -> None:
    """Write the table below pytest's own output; if brief, at most ten lines."""
    if brief and summary.results:
        terminal.section("gpuperf")
        for line in brief_lines(summary):
            terminal.write_line(line)
        return
    width = terminal_columns(terminal)
    columns = width if terminal.isatty else max(width, LEAST_COLUMNS)
    lines = summary_lines(summary, Screen(columns, terminal.hasmarkup), verbosity=terminal.verbosity)
    notices = summary.notices if summary.results else [n for n in summary.notices if n.startswith("error")]
    lines.extend(f"gpuperf: {notice}" for notice in (*notices, *undecided(summary.results)))
    if not lines:
        return
    terminal.section("gpuperf")
    for line in lines:
        terminal.write_line(line)


def annotate(summary: Summary, terminal: TerminalReporter) -> None:
    """Write annotations, which GitHub reads from the log."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        unexpected = [
            result for result in summary.results if result.record.nodeid not in summary.expected_failures
        ]
        prefix = _folder_in_repository(summary.root)
        for line in error_annotations(unexpected, lines=summary.lines, prefix=prefix):
            terminal.write_line(line)


def write_markdown(summary: Summary, path: Path | None) -> None:
    """Append the summary to the file that the user or GitHub names.

    Raises:
        OSError: The file cannot be written.
    """
    if path is None or not summary.results:
        return
    with named(path), path.open("a", encoding="utf-8") as stream:
        stream.write(summary_markdown(summary))


def _folder_in_repository(root: Path) -> str:
    """Return the path of pytest's rootdir in the repository on GitHub; empty for its top."""
    try:
        folder = root.relative_to(Path(os.environ.get("GITHUB_WORKSPACE", root))).as_posix()
    except ValueError:
        return ""
    return "" if folder == "." else folder
