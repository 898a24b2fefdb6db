"""The summary of a run in Markdown, for GitHub's step summary and for pull request comments."""

from __future__ import annotations

import os
from html import escape as escape_html
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.records.change import printable
from pytest_gpuperf.records.files import named
from pytest_gpuperf.report.forms.as_markdown import bullets, escape, table_rows
from pytest_gpuperf.report.notices import notices, undecided
from pytest_gpuperf.report.rows import (
    SEVERITY,
    build_rows,
    columns_of,
    counts_by_status,
    failures,
    header_lines,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.report.rows import Summary

TABLE_BYTES = 500_000
"""Room for the rows. GitHub refuses a whole step summary above 1 MiB."""
MESSAGES_BYTES = 400_000
"""Room for the failure messages."""
MESSAGE_CHARACTERS = 4_000
"""Maximum length of one failure message."""


def summary_markdown(summary: Summary) -> str:
    """Return the headline, environment, table, notices and failure messages, together below 1 MiB.

    The worst verdicts come first. If there is not enough room, the rows of passed tests are left out, and the
    text says how many. Names and messages may come from a pull request: none of them can become markup.
    """
    results = summary.results
    parts = [f"## gpuperf: {counted(results) or 'no tests'}"]
    parts += [escape(line) for line in header_lines(summary.environment, summary.replayed_from)]
    parts += _table(results) if results else []
    if remarks := [*notices(summary), *undecided(results)]:
        parts.append(bullets(remarks).rstrip())
    blocks = [
        f"<pre><b>{escape_html(printable(result.record.nodeid))}</b>\n{escape_html(message)}</pre>\n"
        for result in failures(results)
        if (message := cut(result.message(), MESSAGE_CHARACTERS))
    ]
    kept = within(blocks, MESSAGES_BYTES)
    if kept:
        rest = [f"Left out for lack of room: {len(blocks) - len(kept):,} more."] * (len(kept) < len(blocks))
        parts.append(folded(f"{len(blocks):,} failed", ["".join(kept).rstrip(), *rest]))
    return "\n\n".join(parts) + "\n"


def _table(results: Sequence[TestResult]) -> list[str]:
    worst = sorted(results, key=lambda result: SEVERITY[result.status])
    rows_of = build_rows(worst)
    head, lines = table_rows(columns_of([row for rows in rows_of for row in rows]))
    line = iter(lines)
    kept = within(["".join(next(line) for _ in rows) for rows in rows_of], TABLE_BYTES)
    left = f"Left out for lack of room: {counted(worst[len(kept) :])}. The run file has them all."
    return [head + "".join(kept).rstrip(), *[left] * (len(kept) < len(worst))]


def counted(results: Sequence[TestResult]) -> str:
    """Return `1 regressed, 3 pass`, the worst first; empty without tests."""
    return ", ".join(f"{number:,} {status.value}" for status, number in counts_by_status(results).items())


def within(texts: Sequence[str], room: int) -> list[str]:
    """Return the first texts that together fit into `room` bytes, each with two more."""
    sizes = accumulate(len(text.encode()) + 2 for text in texts)
    return [text for text, size in zip(texts, sizes, strict=True) if size <= room]


def cut(text: str, most: int) -> str:
    """Return at most so many characters of a text."""
    return text if len(text) <= most else f"{text[:most]}…"


def folded(title: str, parts: Sequence[str]) -> str:
    """Return parts that a reader unfolds."""
    return "\n\n".join([f"<details><summary>{title}</summary>", *parts, "</details>"])


def write_markdown(summary: Summary) -> None:
    """Append the summary to the file that GitHub names.

    Raises:
        OSError: The file cannot be written.
    """
    if (name := os.environ.get("GITHUB_STEP_SUMMARY")) and summary.results:
        with named(Path(name)), Path(name).open("a", encoding="utf-8") as stream:
            stream.write(summary_markdown(summary))
