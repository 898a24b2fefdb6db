"""Names and messages in Markdown, none of which can become markup: they may come from a pull request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Sequence


def as_code(text: str) -> str:
    """A code span, also within a table."""
    # It ends at a backtick, and a table's cell at a bare pipe, wherever they stand.
    return "`" + text.replace("`", "'").replace("|", "\\|") + "`"


def literal(text: str) -> str:
    """Text as it is."""
    return re.sub(r"[\\`*\[\]<>&|~@#!]", lambda match: f"&#{ord(match[0])};", text)


def table(titles: Sequence[str], aligned: str, rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are Markdown already.

    Args:
        titles: One for each column.
        aligned: A letter for each column: `l` or `r`.
        rows: The cells.
    """
    rule = ["---:" if letter == "r" else "---" for letter in aligned]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (titles, rule, *rows))


def document(source: Sequence[str], content: str, notes: Sequence[str]) -> str:
    """A table with lines of text above it, and notes below it as a list."""
    parts = [f"{literal(printable(line))}\n" for line in source]
    parts.append(content)
    if notes:
        parts.append("".join(f"- {literal(printable(note))}\n" for note in notes))
    return "\n".join(parts)
