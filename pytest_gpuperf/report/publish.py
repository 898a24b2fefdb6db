"""Hand a session's results to the terminal, to the Markdown summary and to GitHub."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.report.github import error_annotations
from pytest_gpuperf.report.markdown import summary_markdown
from pytest_gpuperf.report.terminal import summary_lines

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.session.base import Session

LEAST_COLUMNS = 100
"""A log has no width; this is what people read it with."""


def publish(session: Session, terminal: TerminalReporter) -> None:
    """Write the table below pytest's own output, and GitHub's annotations."""
    width = terminal._tw.fullwidth
    lines = summary_lines(
        session.results,
        width=width if terminal.isatty else max(width, LEAST_COLUMNS),
        verbosity=terminal.verbosity,
        colour=terminal.hasmarkup,
        environment=session.environment,
        replayed_from=session.replayed_from,
        counters_unavailable=session.counters_unavailable,
        updated=session.updated,
    )
    notices = session.notices if session.results else [n for n in session.notices if n.startswith("error")]
    lines.extend(f"gpuperf: {notice}" for notice in notices)
    if not lines:
        return
    terminal.section("gpuperf")
    for line in lines:
        terminal.write_line(line)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        unexpected = [
            result for result in session.results if result.record.nodeid not in session.expected_failures
        ]
        for line in error_annotations(unexpected, lines=session.lines, prefix=_folder_in_repository(session)):
            terminal.write_line(line)


def write_markdown(session: Session) -> None:
    """Append the summary to the file that the user or GitHub names.

    Raises:
        OSError: The file cannot be written.
    """
    path = session.settings.markdown
    if path is None or not session.results:
        return
    text = summary_markdown(
        session.results,
        environment=session.environment,
        replayed_from=session.replayed_from,
        counters_unavailable=session.counters_unavailable,
        updated=session.updated,
    )
    with path.open("a", encoding="utf-8") as stream:
        stream.write(text)


def _folder_in_repository(session: Session) -> str:
    """Where pytest's rootdir is in the repository that GitHub has checked out; empty for its top."""
    workspace = Path(os.environ.get("GITHUB_WORKSPACE", session.settings.root))
    try:
        folder = session.settings.root.relative_to(workspace).as_posix()
    except ValueError:
        return ""
    return "" if folder == "." else folder
