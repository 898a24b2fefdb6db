"""The summary of a run in Markdown, for GitHub's step summary and for pull request comments."""

from __future__ import annotations

import os
from html import escape as escape_html
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_gpuperf.records.change import printable
from pytest_gpuperf.records.writing import named
from pytest_gpuperf.report.forms.as_markdown import bullets, escape, table_rows
from pytest_gpuperf.report.notices import notices, undecided
from pytest_gpuperf.report.rows import (
    SEVERITY,
    build_rows,
    columns_of,
    counts_by_status,
    failure_message,
    failures,
    header_lines,
    overall_status,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.report.rows import Summary

_T = TypeVar("_T")

TABLE_BYTES = 500_000
"""Room for the rows. GitHub refuses a whole step summary above 1 MiB."""
MESSAGES_BYTES = 400_000
"""Room for the failure messages."""
MESSAGE_CHARACTERS = 4_000
"""Maximum length of one failure message."""


def summary_markdown(summary: Summary) -> str:
    """Return the headline, environment, table, notices and failure messages, together below 1 MiB.

    If there is not enough room, the rows of passed tests are left out first, and the text says how many.
    Names and messages may come from a pull request: none of them can become markup.
    """
    results = summary.results
    counts = ", ".join(f"{count:,} {status.value}" for status, count in counts_by_status(results).items())
    parts = [f"## gpuperf: {counts or 'no tests'}"]
    parts += [escape(line) for line in header_lines(summary.environment, summary.replayed_from)]
    parts += _table(results)
    if remarks := [*notices(summary), *undecided(results)]:
        parts.append(bullets(remarks).rstrip())
    parts += _failures(results)
    return "\n\n".join(parts) + "\n"


def _table(results: Sequence[TestResult]) -> list[str]:
    if not results:
        return []
    rows_of = build_rows(results)
    head, lines = table_rows(columns_of([row for rows in rows_of for row in rows]))
    line = iter(lines)
    lines_of = ["".join(next(line) for _ in rows) for rows in rows_of]
    order = sorted(range(len(results)), key=lambda index: SEVERITY[overall_status(results[index])])
    kept = set(within(order, [len(lines_of[index].encode()) for index in order], TABLE_BYTES))
    parts = [head + "".join(lines for index, lines in enumerate(lines_of) if index in kept).rstrip()]
    left = counts_by_status([result for index, result in enumerate(results) if index not in kept])
    if left:
        what = ", ".join(f"{count:,} {status.value}" for status, count in left.items())
        parts.append(f"Left out for lack of room: {what}. The run file has them all.")
    return parts


def _failures(results: Sequence[TestResult]) -> list[str]:
    blocks = []
    for result in failures(results):
        message = failure_message(result)
        if len(message) > MESSAGE_CHARACTERS:
            message = message[:MESSAGE_CHARACTERS] + "\n…"
        blocks.append(
            f"<pre><b>{escape_html(printable(result.record.nodeid))}</b>\n{escape_html(message)}</pre>\n"
        )
    kept = within(blocks, [len(block.encode()) for block in blocks], MESSAGES_BYTES)
    if not kept:
        return []
    more = len(blocks) - len(kept)
    rest = [f"Left out for lack of room: {more:,} more."] if more else []
    return [
        f"<details><summary>{len(blocks):,} failed</summary>",
        "".join(kept).rstrip(),
        *rest,
        "</details>",
    ]


def within(items: Sequence[_T], sizes: Iterable[int], room: int) -> list[_T]:
    """Return the first items that together fit into `room` bytes."""
    kept = []
    for item, size in zip(items, sizes, strict=True):
        room -= size
        if room < 0:
            break
        kept.append(item)
    return kept


def write_markdown(summary: Summary, name: str) -> None:
    """Append the summary to the file that the user or GitHub names.

    Args:
        summary: The run.
        name: The file that the user names; empty for GitHub's.

    Raises:
        OSError: The file cannot be written.
    """
    name = name or os.environ.get("GITHUB_STEP_SUMMARY", "")
    if name and summary.results:
        with named(Path(name)), Path(name).open("a", encoding="utf-8") as stream:
            stream.write(summary_markdown(summary))
