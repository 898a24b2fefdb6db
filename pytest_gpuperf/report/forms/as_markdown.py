"""Tables as Markdown. No name and no message can become markup: they may come from a pull request."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.report.table import Column, Report, Screen, Table, Tone

MARKS: dict[Tone, str] = {"bad": "❌ ", "unsure": "❔ ", "new": "🆕 ", "good": "🚀 ", "pass": "✅ "}


_ADDRESS = re.compile(r"(?i)://|\bwww\.")
"""Parts of which GitHub makes a link by itself."""
_ENTITIES = {ord(char): f"&#{ord(char)};" for char in r"\`*[]<>&|~@#!"}


def render(report: Report, screen: Screen) -> str:
    """Return the tables, with the lines above them as paragraphs and their notes as lists."""
    del screen  # a browser lays Markdown out
    return "\n".join(part for table in report.tables for part in _parts(table))


def table_rows(columns: Sequence[Column]) -> tuple[str, list[str]]:
    """Return the head of a table, and the line of each row; columns without any text are left out."""
    shown = [column for column in columns if any(column.cells)]
    rule = ["---:" if column.justified_right else "---" for column in shown]
    head = "".join(f"| {' | '.join(cells)} |\n" for cells in ([escape(one.title) for one in shown], rule))
    rows = zip(*(_cells(column) for column in shown), strict=True)
    return head, [f"| {' | '.join(cells)} |\n" for cells in rows]


def bullets(notes: Sequence[str]) -> str:
    """Return notes as a list."""
    return "".join(f"- {escape(note)}\n" for note in notes)


@lru_cache(4096)  # many cells of a table are the same
def escape(text: str) -> str:
    """Return text that Markdown shows as it is."""
    shown = printable(text).translate(_ENTITIES)
    return _ADDRESS.sub(lambda found: found[0].replace(":", "&#58;").replace(".", "&#46;"), shown)


def _parts(table: Table) -> Iterator[str]:
    yield from (f"{escape(line)}\n" for line in table.above)
    if table.columns:
        head, rows = table_rows(table.columns)
        yield head + "".join(rows)
    if table.notes:
        yield bullets(table.notes)


def _cells(column: Column) -> Iterator[str]:
    tones: Sequence[Tone] = column.tones or [""] * len(column.cells)
    for cell, tone in zip(column.cells, tones, strict=True):
        if column.code:
            yield code(cell, cell=True)
        else:
            yield MARKS.get(tone, "") + "<br>".join(map(escape, cell.splitlines()))


def code(text: str, *, cell: bool = False) -> str:
    """Return text as a code span; empty for an empty text.

    A code span ends at as many backticks as it begins with, and a cell at a bare pipe, wherever they stand.

    Args:
        text: Shown as it is, without control characters.
        cell: True for the cell of a table.
    """
    text = printable(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    # One space at both ends is removed again. A span must not begin with a backtick of its own.
    pad = " " if text.strip() and (text[0] in " `" or text[-1] in " `") else ""
    span = f"{fence}{pad}{text}{pad}{fence}" if text else ""
    return span.replace("|", "\\|") if cell else span
