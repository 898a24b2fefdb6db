"""A table whose entries take one line where the width allows, else two: the name and the numbers below."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.style import Style

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP = 2
"""Spaces between columns."""
INDENT = 4
"""Spaces before numbers that stand below their name."""
SHORTEST_NAME = 24
"""Names are not cut below this, however narrow the terminal."""


@dataclass(frozen=True)
class Column:
    """A title and its cells; a column without any text is left out."""

    title: str
    cells: Sequence[str]
    justify: Literal["left", "right"] = "right"
    styles: Sequence[str] = ()
    """rich's name of a style for each cell; empty for none at all."""

    @property
    def width(self) -> int:
        """Columns of a terminal that title and cells need."""
        return max(map(cell_len, (self.title, *self.cells)))


def lay_out(
    names: Column, numbers: Sequence[Column], outcome: Sequence[Column], *, width: int, colour: bool
) -> tuple[list[str], list[list[str]]]:
    """Lines of the titles, and lines of each entry.

    Args:
        names: What each entry is called; cut in the middle where there is no room.
        numbers: Never cut.
        outcome: Stands at the end of an entry's first line; never cut.
        width: Columns of the terminal.
        colour: Whether styles become ANSI sequences.
    """
    numbers = [column for column in numbers if any(column.cells)]
    outcome = [column for column in outcome if any(column.cells)]
    behind = _width(outcome)
    below = INDENT + _width(numbers) - GAP
    whole = names.width + GAP + _width(numbers) + behind - GAP
    if whole <= width:
        lines = _aligned([names, *numbers, *outcome], colour)
        total, entries = whole, [[line] for line in lines]
    else:
        room = max(width - behind, SHORTEST_NAME)
        name_width = min(room, max(names.width, below - behind))
        total = max(name_width + behind, below)
        cut = replace(
            names,
            title=cut_middle(names.title, name_width),
            cells=[cut_middle(name, name_width) for name in names.cells],
        )
        heads = _aligned([cut, *outcome], colour, first=name_width)
        tails = _aligned(numbers, colour) if numbers else [""] * len(heads)
        entries = [
            [head, " " * INDENT + tail] if tail else [head] for head, tail in zip(heads, tails, strict=True)
        ]
    return [*entries[0], "-" * total], entries[1:]


def groups(columns: Sequence[Column], room: int) -> list[list[Column]]:
    """The columns in groups that have room beside one another."""
    found: list[list[Column]] = [[]]
    left = room
    for column in columns:
        left -= GAP + column.width
        if left < 0 and found[-1]:
            found.append([])
            left = room - GAP - column.width
        found[-1].append(column)
    # One alone, which may be that of all the others, would be a poor table.
    if len(found) > 1 and len(found[-1]) == 1 and len(found[-2]) > 2:
        found[-1].insert(0, found[-2].pop())
    return found


def cut_middle(text: str, width: int) -> str:
    """`text` in at most `width` columns, an ellipsis in place of its middle."""
    if cell_len(text) <= width:
        return text
    head = (width - 1) // 2
    tail = width - 1 - head
    while cell_len(text[:head]) > (width - 1) // 2:
        head -= 1
    while cell_len(text[-tail:]) > width - 1 - (width - 1) // 2:
        tail -= 1
    return f"{text[:head]}…{text[-tail:]}"


def wrapped(paragraphs: Sequence[str], width: int) -> list[str]:
    """Lines of at most `width` columns, those after the first of a paragraph indented; no word is cut."""
    return [
        line
        for paragraph in paragraphs
        for line in textwrap.wrap(
            paragraph, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    ]


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width + GAP for column in columns)


def _aligned(columns: Sequence[Column], colour: bool, first: int = 0) -> list[str]:
    """The titles and the rows, a line each; the first column at least `first` wide."""
    # Not rich's Table: it cannot give a row two lines of different columns, and takes a millisecond a row.
    padded: list[list[str]] = []
    for index, column in enumerate(columns):
        width = max(column.width, 0 if index else first)
        styles = ["bold", *(column.styles or [""] * len(column.cells))] if colour else []
        padded.append(
            [
                _pad(cell, width, column.justify, styles[row] if colour else "")
                for row, cell in enumerate((column.title, *column.cells))
            ]
        )
    gap = " " * GAP
    return [gap.join(row).rstrip() for row in zip(*padded, strict=True)]


def _pad(cell: str, width: int, justify: str, style: str) -> str:
    space = " " * (width - cell_len(cell))
    shown = Style.parse(style).render(cell, color_system=ColorSystem.STANDARD) if style and cell else cell
    return space + shown if justify == "right" else shown + space
