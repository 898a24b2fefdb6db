"""A comparison of measurements as a terminal shows it, as Markdown, CSV and JSON. Loads rich."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.records.change import printable
from pytest_gpuperf.report.kernel_comparison import STYLES, show_movement
from pytest_gpuperf.report.kernel_data import EFFECTS, csv_text, json_text
from pytest_gpuperf.report.kernel_table import show_metric
from pytest_gpuperf.report.layout import GAP, INDENT, Column, groups, lay_out, wrapped
from pytest_gpuperf.report.markup import as_code, document, literal, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.compare.side_by_side import Cell, Line, Table

NOT_COMPARED = "not compared"


def as_text(found: Table, source: Sequence[str], *, width: int, colour: bool, shares: bool = False) -> str:
    """A line for each metric, the changes beside the values; several tables where the width needs them.

    Args:
        found: The comparison.
        source: Where the values are from, above the table.
        width: Columns of the terminal.
        colour: Whether ANSI colours may be used.
        shares: Whether to show what share a value is of the first one, in place of the change.
    """
    subjects = [(subject, list(lines)) for subject, lines in groupby(found.lines, lambda line: line.subject)]
    # A heading above every single line would be half of the table.
    flat = len({line.metric for line in found.lines}) == 1 and len(subjects) > 1
    indent = " " * INDENT if not flat and any(subject for subject, _ in subjects) else ""
    names = [indent + printable(line.subject if flat else line.metric) for line in found.lines]
    rows = Column(found.lines[0].metric if flat else "metric", names, "left")
    unit = Column("unit", [line.unit for line in found.lines], "left")
    columns = [_column(found, index, shares) for index in range(len(found.columns))]
    shown = wrapped([printable(line) for line in source], width)
    for some in groups(columns, width - rows.width - unit.width - GAP):
        titles, entries = lay_out(rows, [unit, *some], [], width=width, colour=colour)
        shown += ["", *titles]
        own = iter(entries)
        for subject, lines in subjects:
            shown += [printable(subject)] if subject and not flat else []
            shown += [text for _ in lines for text in next(own)]
    if found.notes:
        shown += ["", *wrapped([printable(note) for note in found.notes], width)]
    return "\n".join(shown) + "\n"


def _column(found: Table, index: int, shares: bool) -> Column:
    cells = [line.cells[index] for line in found.lines]
    values = [_value(line, cell) for line, cell in zip(found.lines, cells, strict=True)]
    moves = [_movement(line, cell, shares) for line, cell in zip(found.lines, cells, strict=True)]
    value_width, move_width = (max(map(len, texts), default=0) for texts in (values, moves))
    texts = [
        f"{value:>{value_width}}{' ' * bool(move_width)}{move:>{move_width}}"
        for value, move in zip(values, moves, strict=True)
    ]
    styles = [STYLES[cell.change.worse] if cell.change else "" for cell in cells]
    return Column(printable(found.columns[index]), texts, styles=styles)


def _value(line: Line, cell: Cell) -> str:
    return "" if cell.value is None else show_metric(cell.value, line.unit)


def _movement(line: Line, cell: Cell, shares: bool) -> str:
    if cell.not_compared:
        return NOT_COMPARED
    if shares:
        pct = cell.change.change_pct if cell.change else None
        return "" if pct is None else f"{100 + pct:.1f} %"
    moved = "" if cell.change is None else show_movement(cell.change, line.unit)
    return "" if moved[1:].startswith("0.0 ") else moved


def as_markdown(found: Table, source: Sequence[str], *, shares: bool = False) -> str:
    """The table with a column of changes beside each column but the first, and the notes as a list.

    Args:
        found: The comparison.
        source: Where the values are from, above the table.
        shares: Whether to show what share a value is of the first one, in place of the change.
    """
    named = any(line.subject for line in found.lines)
    moved = [
        any(_movement(line, line.cells[i], shares) for line in found.lines) for i in range(len(found.columns))
    ]
    titles = [*(["test"] if named else []), "metric", "unit"]
    for title, moves in zip(found.columns, moved, strict=True):
        titles += [as_code(printable(title)), *(["share" if shares else "change"] if moves else [])]
    rows = [
        [
            *([as_code(printable(line.subject))] if named else []),
            as_code(printable(line.metric)),
            literal(line.unit),
            *_markdown_cells(line, moved, shares),
        ]
        for line in found.lines
    ]
    aligned = "l" * (2 + named) + "r" * (len(titles) - 2 - named)
    return document(source, table(titles, aligned, rows), found.notes)


def _markdown_cells(line: Line, moved: Sequence[bool], shares: bool) -> Iterator[str]:
    for cell, moves in zip(line.cells, moved, strict=True):
        yield literal(_value(line, cell))
        if moves:
            yield literal(_movement(line, cell, shares))


def as_csv(found: Table) -> str:
    """A row for each value: what it is of, its change in per cent, and whether that is better or worse."""
    columns = ("subject", "metric", "unit", "column", "value", "change_pct", "effect", "compared")
    rows = [
        (line.subject, line.metric, line.unit, title, cell["value"], *_numbers(cell))
        for line in found.lines
        for title, cell in zip(found.columns, map(_as_dict, line.cells), strict=True)
        if cell["value"] is not None
    ]
    return csv_text(columns, rows)


def _numbers(cell: dict[str, Any]) -> tuple[object, ...]:
    pct = cell["change_pct"]
    return "" if pct is None else pct, cell["effect"], "yes" if cell["compared"] else "no"


def as_json(found: Table) -> str:
    """`runs`, `columns`, `notes`, and `lines` with a cell for each column."""
    return json_text(
        {
            "runs": found.runs,
            "columns": found.columns,
            "notes": found.notes,
            "lines": [
                {
                    "subject": line.subject,
                    "metric": line.metric,
                    "unit": line.unit,
                    "cells": [_as_dict(cell) for cell in line.cells],
                }
                for line in found.lines
            ],
        }
    )


def _as_dict(cell: Cell) -> dict[str, Any]:
    change = cell.change
    return {
        "value": cell.value,
        "change_pct": change.change_pct if change else None,
        "effect": EFFECTS[change.worse] if change else "",
        "compared": not cell.not_compared,
    }
