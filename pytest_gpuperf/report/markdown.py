"""The summary as Markdown, for GitHub's step summary and for pull request comments."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, TypeVar

from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.report.markup import as_code, literal
from pytest_gpuperf.report.notices import notices
from pytest_gpuperf.report.rows import (
    SEVERITY,
    build_rows,
    counts_by_status,
    failure_message,
    failures,
    header_lines,
    overall_status,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Environment, Run
    from pytest_gpuperf.report.rows import Row

_T = TypeVar("_T")

TABLE_BYTES = 500_000
"""Room for the rows. GitHub refuses a step summary above 1 MiB as a whole."""
MESSAGES_BYTES = 400_000
"""Room for the failure messages."""
MESSAGE_CHARACTERS = 4_000
"""Of one failure message."""
_TITLES = ("test", "time", "rate", "SOL", "occupancy", "top stall", "change", "finds", "verdict")
_COMPILED = "compiled"
"""Stands behind the others, in reports of tests that have compiled kernels."""
_MARKS = {
    Status.INVALID: "❌ ",
    Status.WRONG: "❌ ",
    Status.REGRESSED: "❌ ",
    Status.LIMIT: "❌ ",
    Status.INCONCLUSIVE: "❔ ",
    Status.UNBASELINED: "🆕 ",
    Status.IMPROVED: "🚀 ",
    Status.PASS: "✅ ",
}


def summary_markdown(
    results: Sequence[TestResult],
    *,
    environment: Environment,
    replayed_from: Run | None,
    counters_unavailable: str,
    updated: bool = False,
) -> str:
    """Headline, environment, table, notices and the failure messages, together below 1 MiB.

    Where there is no room for all, the rows of passed tests are left out first, and the text says how many.
    Names and messages may come from a pull request: none of them can become markup.

    Args:
        results: What was measured and judged.
        environment: Where the results were measured.
        replayed_from: The recorded run that was judged again, None where the results were measured now.
        counters_unavailable: Why the session has no counters; empty where it has.
        updated: Whether the results have become the baseline, so that nothing need be said of what had none.
    """
    counts = ", ".join(f"{count:,} {status.value}" for status, count in counts_by_status(results).items())
    parts = [f"## gpuperf: {counts or 'no tests'}"]
    parts += [literal(line) for line in header_lines(environment, replayed_from)]
    parts += _table(results)
    remarks = notices(results, counters_unavailable, replayed=replayed_from is not None, updated=updated)
    if remarks:
        parts.append("\n".join(f"- {literal(remark)}" for remark in remarks))
    parts += _failures(results)
    return "\n\n".join(parts) + "\n"


def _table(results: Sequence[TestResult]) -> list[str]:
    if not results:
        return []
    rows_of = build_rows(results)
    compiled = any(row.compiled for rows in rows_of for row in rows)
    lines_of = ["".join(_line(row, compiled) for row in rows) for rows in rows_of]
    order = sorted(range(len(results)), key=lambda index: SEVERITY[overall_status(results[index])])
    kept = set(_within(order, [len(lines_of[index].encode()) for index in order], TABLE_BYTES))
    titles = [*_TITLES, *([_COMPILED] if compiled else ())]
    head = f"| {' | '.join(titles)} |\n|{'---|' + '---:|' * 4 + '---|---:|---:|---|' + '---|' * compiled}\n"
    parts = [head + "".join(lines for index, lines in enumerate(lines_of) if index in kept).rstrip()]
    left = counts_by_status([result for index, result in enumerate(results) if index not in kept])
    if left:
        what = ", ".join(f"{count:,} {status.value}" for status, count in left.items())
        parts.append(f"Left out for want of room: {what}. The run file has them all.")
    return parts


def _line(row: Row, compiled: bool) -> str:
    cells = [
        literal(cell)
        for cell in (row.time, row.rate, row.sol, row.occupancy, row.stall, row.change, row.finds)
    ]
    verdict = [_MARKS[row.status] + row.verdict, *([literal(row.compiled)] if compiled else ())]
    return f"| {' | '.join([as_code(row.test), *cells, *verdict])} |\n"


def _failures(results: Sequence[TestResult]) -> list[str]:
    blocks = []
    for result in failures(results):
        message = failure_message(result)
        if len(message) > MESSAGE_CHARACTERS:
            message = message[:MESSAGE_CHARACTERS] + "\n…"
        blocks.append(f"<pre><b>{escape(printable(result.record.nodeid))}</b>\n{escape(message)}</pre>\n")
    kept = _within(blocks, [len(block.encode()) for block in blocks], MESSAGES_BYTES)
    if not kept:
        return []
    more = len(blocks) - len(kept)
    rest = [f"Left out for want of room: {more:,} more."] if more else []
    return [
        f"<details><summary>{len(blocks):,} failed</summary>",
        "".join(kept).rstrip(),
        *rest,
        "</details>",
    ]


def _within(items: Sequence[_T], sizes: Iterable[int], room: int) -> list[_T]:
    """The first items that together fit into `room` bytes."""
    kept = []
    for item, size in zip(items, sizes, strict=True):
        room -= size
        if room < 0:
            break
        kept.append(item)
    return kept
