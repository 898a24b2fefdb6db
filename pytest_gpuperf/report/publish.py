"""Hand a run's results to the terminal, to the Markdown summary and to GitHub."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.report.github import error_annotations
from pytest_gpuperf.report.step_summary import summary_markdown
from pytest_gpuperf.report.terminal import summary_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Environment, Run

LEAST_COLUMNS = 100
"""Width of a log, which has none of its own."""


@dataclass(frozen=True)
class Summary:
    """The results of a run, and further facts for its reports."""

    results: Sequence[TestResult]
    environment: Environment
    replayed_from: Run | None
    counters_unavailable: str
    updated: bool
    """True if this run has become the baseline."""
    notices: Sequence[str]
    expected_failures: Collection[str]
    """Node ids of tests that failed as expected."""
    lines: Mapping[str, int]
    """Line of each test in its file, by node id."""
    root: Path
    """pytest's rootdir."""


def publish(summary: Summary, terminal: TerminalReporter) -> None:
    """Write the table below pytest's own output, and GitHub's annotations."""
    width = terminal._tw.fullwidth
    lines = summary_lines(
        summary.results,
        width=width if terminal.isatty else max(width, LEAST_COLUMNS),
        verbosity=terminal.verbosity,
        colour=terminal.hasmarkup,
        environment=summary.environment,
        replayed_from=summary.replayed_from,
        counters_unavailable=summary.counters_unavailable,
        updated=summary.updated,
    )
    notices = summary.notices if summary.results else [n for n in summary.notices if n.startswith("error")]
    lines.extend(f"gpuperf: {notice}" for notice in notices)
    if not lines:
        return
    terminal.section("gpuperf")
    for line in lines:
        terminal.write_line(line)
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
    text = summary_markdown(
        summary.results,
        environment=summary.environment,
        replayed_from=summary.replayed_from,
        counters_unavailable=summary.counters_unavailable,
        updated=summary.updated,
    )
    with path.open("a", encoding="utf-8") as stream:
        stream.write(text)


def _folder_in_repository(root: Path) -> str:
    """Return the path of pytest's rootdir in the repository on GitHub; empty for its top."""
    try:
        folder = root.relative_to(Path(os.environ.get("GITHUB_WORKSPACE", root))).as_posix()
    except ValueError:
        return ""
    return "" if folder == "." else folder
