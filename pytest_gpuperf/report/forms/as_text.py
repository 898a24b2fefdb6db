"""Tables as text for a terminal: one line for each row if the width allows, otherwise several."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from functools import partial
from itertools import combinations, groupby
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.style import Style

from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.report.table import Column, Report, Screen, Table, Tone

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_wrap = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)
GAP = 2
"""Spaces between columns."""
INDENT = 4
"""Spaces before lines that belong to the line above."""
GROUP_INDENT = 2
"""Spaces before the rows of a group."""
SHORTEST_NAME = 24
"""Names are not cut below this width, however narrow the terminal."""
LONG_NAME = 40
"""Width that names keep before a wide terminal leaves out spare columns."""
WIDE = 120
"""Least width that shows the columns for wide terminals."""
STYLES: dict[Tone, str] = {
    "": "",
    "bad": "bold red",
    "unsure": "yellow",
    "new": "yellow",
    "good": "bold green",
    "pass": "green",
    "worse": "bold red",
    "better": "bold green",
    "absent": "dim",
}
"""rich's name of the style for each tone."""


def render(report: Report, screen: Screen) -> str:
    """Return the tables, each with its notes, an empty line between them."""
    blocks = [block for table in report.tables for block in _blocks(table, screen)]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def table_lines(table: Table, screen: Screen) -> list[str]:
    """Return a table as lines, its notes right below it."""
    return [line for block in _blocks(table, screen) for line in block]


def row_lines(columns: Sequence[Column], screen: Screen) -> tuple[list[str], list[list[str]]]:
    """Return the lines of the titles, and the lines of each row.

    Args:
        columns: Columns of the same length, without groups.
        screen: The width, and whether tones become ANSI sequences.
    """
    shown = [_printable(one) for one in columns if any(one.cells) and (screen.width >= WIDE or not one.wide)]
    if screen.width >= WIDE:
        shown = _on_one_line(shown, screen.width)
    names = [one for one in shown if one.place == "name"]
    numbers = [one for one in shown if one.place in ("unit", "number")]
    outcome = [one for one in shown if one.place == "outcome"]
    prose = [one for one in shown if one.place == "prose"]
    titles: list[str] = []
    rows: list[list[str]] = [[] for _ in range(max(len(one.cells) for one in columns))]
    if names:
        titles, rows = _aligned_rows(names[0], numbers, outcome, screen)
    if prose:
        used = sum(_width(one) + GAP for one in (*names, *numbers, *outcome))
        cells = zip(rows, prose[0].cells, strict=True)
        rows = [_beside(row[0], cell, used, screen.width) for row, cell in cells]
    indent = " " * (INDENT if names else 0)
    for detail in (one for one in columns if one.place == "detail"):
        for row, cell in zip(rows, detail.cells, strict=True):
            row += [f"{indent}{line}" for line in wrapped(cell.splitlines(), screen.width - len(indent))]
    return titles, rows


def _on_one_line(columns: Sequence[Column], width: int) -> list[Column]:
    """Let each row fit on one line: cut long names, leave out spare columns, then cut names further."""
    names = [one for one in columns if one.place == "name"]
    wanted = sum(min(_width(one), LONG_NAME) + GAP for one in names)
    spare = [one for one in columns if one.spare]

    def room(left_out: Sequence[Column]) -> int:
        return width + GAP - sum(_width(one) + GAP for one in columns if one not in (*names, *left_out))

    choices = [chosen for size in range(len(spare) + 1) for chosen in combinations(spare, size)]
    choices.sort(key=lambda chosen: sum(one.spare for one in chosen))
    left_out = next((chosen for chosen in choices if room(chosen) >= wanted), choices[-1])
    most = max(room(left_out) - GAP, SHORTEST_NAME)
    return [replace(one, most=most) if one in names else one for one in columns if one not in left_out]


def cut_middle(text: str, width: int) -> str:
    """Shorten a text to at most `width` columns, with an ellipsis for its middle."""
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
    """Break paragraphs into lines, indented after the first; words are never cut."""
    return [
        line
        for paragraph in paragraphs
        for line in _wrap(printable(paragraph), width, subsequent_indent="  ")
    ]


def _blocks(table: Table, screen: Screen) -> Iterator[list[str]]:
    blocks = [wrapped(table.above, screen.width)]
    if table.columns:
        blocks.append(_grouped(_joined(table.columns), screen))
    yield from filter(None, [*blocks, wrapped(table.notes, screen.width)])


def _grouped(columns: Sequence[Column], screen: Screen) -> list[str]:
    """Return the lines of a table, with the headings of its groups."""
    groups = next((one.cells for one in columns if one.place == "group" and any(one.cells)), None)
    if groups is None:
        titles, rows = row_lines(columns, screen)
        return [*titles, *(line for row in rows for line in row)]
    indent = " " * GROUP_INDENT
    titles, rows = row_lines(columns, screen._replace(width=screen.width - GROUP_INDENT))
    lines = [indent + title for title in titles[:-1]]
    lines += [rule + "-" * GROUP_INDENT for rule in titles[-1:]]
    own = iter(rows)
    for group, members in groupby(groups):
        lines += [printable(group)] if group else []
        lines += [indent + line for _ in members for line in next(own)]
    return lines


def _joined(columns: Sequence[Column]) -> list[Column]:
    """Put the cells of a column that follows another below the title of that one."""
    found: list[Column] = []
    for column in columns:
        if not column.follows:
            found.append(column)
        elif any(column.cells):
            values = found.pop()
            widths = [max(map(cell_len, one.cells)) for one in (values, column)]
            cells = [
                f"{value:>{widths[0]}} {cell:>{widths[1]}}"
                for value, cell in zip(values.cells, column.cells, strict=True)
            ]
            found.append(replace(values, cells=cells, tones=column.tones))
    return found


def _aligned_rows(
    full: Column, numbers: Sequence[Column], outcome: Sequence[Column], screen: Screen
) -> tuple[list[str], list[list[str]]]:
    short = replace(full, cells=[cut_middle(cell, full.most) for cell in full.cells]) if full.most else full
    behind, middle = (sum(_width(one) + GAP for one in columns) for columns in (outcome, numbers))
    whole = _width(short) + middle + behind
    if whole <= screen.width or not numbers:
        title, *rows = _aligned([short, *numbers, *outcome], screen)
        return [title, "-" * whole] if title.strip() else [], [[row] for row in rows]
    beside = [*(one for one in numbers if one.place == "unit"), *outcome]
    parts = _parts([one for one in numbers if one.place != "unit"], screen.width - INDENT)
    behind = sum(_width(one) + GAP for one in beside)
    below = INDENT - GAP + max(sum(_width(one) + GAP for one in part) for part in parts)
    # Outcomes end where the numbers below end.
    wanted = max(_width(full), below - behind) if outcome else _width(full)
    name_width = min(max(screen.width - behind, SHORTEST_NAME), wanted)
    cells = [cut_middle(cell, name_width) for cell in full.cells]
    cut = replace(full, title=cut_middle(full.title, name_width), cells=cells)
    heads = _aligned([cut, *beside], screen, first=name_width)
    tails = [_aligned(part, screen) for part in parts]
    lines = [
        [head, *(" " * INDENT + line for line in below_it if line)]
        for head, *below_it in zip(heads, *tails, strict=True)
    ]
    return [*lines[0], "-" * max(name_width + behind, below)], lines[1:]


def _parts(numbers: Sequence[Column], room: int) -> list[list[Column]]:
    """Return the columns of each line below a name."""
    parts: list[list[Column]] = [[]]
    used = 0
    for column in numbers:
        used += _width(column) + GAP
        if used - GAP > room and parts[-1]:
            parts.append([])
            used = _width(column) + GAP
        parts[-1].append(column)
    return parts


def _beside(row: str, text: str, used: int, width: int) -> list[str]:
    """Put a text to the right of a row, wrapped in the width that is left."""
    room = max(width - used, SHORTEST_NAME)
    lines = [line for part in text.splitlines() for line in _wrap(printable(part), room) or [""]] or [""]
    gap = " " * (used - cell_len(_ANSI.sub("", row)))
    return [row + gap + lines[0], *(" " * used + line for line in lines[1:])]


def _printable(column: Column) -> Column:
    if column.place == "prose":  # line by line, below
        return column
    return replace(column, title=printable(column.title), cells=[printable(cell) for cell in column.cells])


def _width(column: Column) -> int:
    return max(map(cell_len, (column.title, *column.cells)))


def _aligned(columns: Sequence[Column], screen: Screen, first: int = 0) -> list[str]:
    """Return the titles and the rows, one line each; the first column is at least `first` wide."""
    # Not rich's Table: it cannot give a row two lines of different columns, and takes a millisecond a row.
    padded: list[list[str]] = []
    for index, column in enumerate(columns):
        width = max(_width(column), 0 if index else first)
        styles = ["bold", *(STYLES[tone] for tone in column.tones or [""] * len(column.cells))]
        padded.append(
            [
                _pad(cell, width, column.justified_right, style if screen.colour else "")
                for cell, style in zip((column.title, *column.cells), styles, strict=True)
            ]
        )
    gap = " " * GAP
    return [gap.join(row).rstrip() for row in zip(*padded, strict=True)]


def _pad(cell: str, width: int, right: bool, style: str) -> str:
    space = " " * (width - cell_len(cell))
    shown = Style.parse(style).render(cell, color_system=ColorSystem.STANDARD) if style and cell else cell
    return space + shown if right else shown + space
