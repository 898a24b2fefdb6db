"""Names and messages in Markdown, none of which can become markup: they may come from a pull request."""

from __future__ import annotations

import re


def as_code(text: str) -> str:
    """A code span, also within a table."""
    # It ends at a backtick, and a table's cell at a bare pipe, wherever they stand.
    return "`" + text.replace("`", "'").replace("|", "\\|") + "`"


def as_text(text: str) -> str:
    """Text as it is."""
    return re.sub(r"[\\`*\[\]<>&|~@#!]", lambda match: f"&#{ord(match[0])};", text)


def table(titles: list[str], aligned: str, rows: list[list[str]]) -> str:
    """A table of cells that are Markdown already.

    Args:
        titles: One for each column.
        aligned: A letter for each column: `l` or `r`.
        rows: The cells.
    """
    rule = ["---:" if letter == "r" else "---" for letter in aligned]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (titles, rule, *rows))
