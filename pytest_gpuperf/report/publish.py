"""Hand a session's results to the terminal, to the Markdown summary and to GitHub."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_gpuperf.report.github import error_annotations
from pytest_gpuperf.report.markdown import summary_markdown
from pytest_gpuperf.report.terminal import summary_lines

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.session.base import Session


def publish(session: Session, terminal: TerminalReporter) -> None:
    """Write the table below pytest's own output, and what CI reads."""
    lines = summary_lines(
        session.results,
        width=terminal._tw.fullwidth,
        verbosity=terminal.verbosity,
        colour=terminal.hasmarkup,
        environment=session.environment,
        replayed_from=session.replayed_from,
        counters_unavailable=session.counters_unavailable,
    )
    lines.extend(f"gpuperf: {notice}" for notice in session.notices)
    if not lines:
        return
    terminal.section("gpuperf")
    for line in lines:
        terminal.write_line(line)
    if not session.results:
        return
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in error_annotations(session.results):
            terminal.write_line(line)
    if session.settings.markdown is not None:
        text = summary_markdown(
            session.results,
            environment=session.environment,
            replayed_from=session.replayed_from,
            counters_unavailable=session.counters_unavailable,
        )
        with session.settings.markdown.open("a", encoding="utf-8") as stream:
            stream.write(text)
