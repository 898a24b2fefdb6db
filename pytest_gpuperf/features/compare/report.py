"""A comparison as a report: its values with their changes, in every output form."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.records.change import show_pair
from pytest_gpuperf.report.number_format import show_duration, show_metric, show_movement
from pytest_gpuperf.report.rows import header_lines
from pytest_gpuperf.report.table import EFFECTS, KERNEL_COLUMNS, Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_gpuperf.features.compare.comparison import Comparison, MetricLine, ValueCell
    from pytest_gpuperf.records import Run

NOT_COMPARED = "not compared"
COLUMNS_SHOWN = 8
"""Maximum number of columns of measurements."""
MOVERS_SHOWN = 8
"""Maximum number of metrics of a pair of launches, unless all are asked for."""


def source_lines(runs: Iterable[Run]) -> list[str]:
    """Name the sources of values, one line for each run: its id, GPU, tools and commit."""
    own = {run.id: run for run in runs}
    return [f"{run.id}: {line}" for run in own.values() for line in header_lines(run.environment, None)]


def comparison_report(found: Comparison, source: Sequence[str]) -> Report:
    """Return every line of a comparison.

    Args:
        found: The comparison.
        source: Lines above the table: where the values are from.
    """
    # A heading above every single line would be half of the table.
    flat = len({line.metric for line in found.lines}) == 1 and len({line.subject for line in found.lines}) > 1
    shown = found.columns[:COLUMNS_SHOWN]
    more = len(found.columns) - len(shown)
    notes = [f"{more} more: name fewer tests, as in latest::TEST; --json has all"] if more else []
    columns = _columns(found.lines, shown, flat=flat)
    return _report(found, [Table(columns, source, [*found.notes, *notes])])


def movers_report(found: Comparison, source: Sequence[str], *, everything: bool) -> Report:
    """Return the durations of all launches, then the metrics that moved in each, the largest mover first.

    Args:
        found: A comparison of launches.
        source: Lines above the table.
        everything: True to show every metric that moved, False for the eight largest movers.
    """
    paired = [line for line in found.lines if all(cell.value is not None for cell in line.cells)]
    durations = [line for line in paired if line.metric == "duration_us"]
    shown: list[MetricLine] = []
    hidden, still = 0, []
    for subject, lines in groupby(paired, lambda line: line.subject):
        moved = [line for line in lines if line.cells[0].value != line.cells[1].value]
        kept = moved if everything else moved[:MOVERS_SHOWN]
        shown += kept
        hidden += len(moved) - len(kept)
        still += [] if moved else [subject]
    notes = [f"{hidden} moved less: --preset=all shows them"] if hidden else []
    notes += [f"nothing moved in {', '.join(still)}"] if still else []
    tables = [Table(_duration_columns(durations, found.columns), source, found.notes)]
    return _report(found, [*tables, Table(_columns(shown, found.columns, group="kernel"), notes=notes)])


def _report(found: Comparison, tables: Sequence[Table]) -> Report:
    # A large run has hundreds of thousands of lines, and most forms need neither records nor data.
    return Report(tables, _records(found), partial(_data_of, found))


def _records(found: Comparison) -> list[dict[str, Any]]:
    return [
        {**_names(line), "column": title, **_data(cell)}
        for line in found.lines
        for title, cell in zip(found.columns, line.cells, strict=True)
        if cell.value is not None
    ]


def _data_of(found: Comparison) -> dict[str, Any]:
    return {
        "sources": found.sources,
        "columns": found.columns,
        "notes": found.notes,
        "lines": [_line(line) for line in found.lines],
    }


def _line(line: MetricLine) -> dict[str, Any]:
    return {**_names(line), "cells": [_data(cell) for cell in line.cells]}


def _names(line: MetricLine) -> dict[str, Any]:
    return {"subject": line.subject, "metric": line.metric, "unit": line.unit}


def _data(cell: ValueCell) -> dict[str, Any]:
    change = cell.change
    return {
        "value": cell.value,
        "change_pct": change.change_pct if change else None,
        "effect": EFFECTS[change.worse] if change else "",
        "compared": not cell.not_compared,
    }


def _columns(
    lines: Sequence[MetricLine],
    titles: Sequence[str],
    *,
    group: str = "test",
    flat: bool = False,
) -> list[Column]:
    if not lines:
        return []
    names = [line.subject if flat else line.metric for line in lines]
    columns = [
        Column(group, [] if flat else [line.subject for line in lines], "group", code=True),
        Column(lines[0].metric if flat else "metric", names, "name", code=True),
        Column("unit", [line.unit for line in lines], "unit"),
    ]
    return columns + _value_columns(lines, titles, _value)


def _duration_columns(lines: Sequence[MetricLine], titles: Sequence[str]) -> list[Column]:
    if not lines:
        return []
    names = Column("kernel", [line.subject for line in lines], "name", code=True, most=KERNEL_COLUMNS)
    return [names, *_value_columns(lines, titles, _duration)]


def _value_columns(
    lines: Sequence[MetricLine], titles: Sequence[str], show: Callable[[MetricLine, int], str]
) -> list[Column]:
    """Return a column of values for each title, its changes, and words for the changes of two columns."""
    columns = []
    for index, title in enumerate(titles):
        cells = [line.cells[index] for line in lines]
        tones = [EFFECTS[cell.change.worse] if cell.change else "" for cell in cells]
        moves = [_movement(line, cell) for line, cell in zip(lines, cells, strict=True)]
        columns.append(Column(title, [show(line, index) for line in lines]))
        columns.append(Column("change", moves, tones=tones, follows=True))
    if len(titles) == 2:
        columns.append(Column("", list(tones), "outcome", left=True, tones=tones))
    return columns


def _duration(line: MetricLine, index: int) -> str:
    value = line.cells[index].value
    return "" if value is None else show_duration({line.metric: value})


def _value(line: MetricLine, index: int) -> str:
    value = line.cells[index].value
    shown = show_metric(value, line.unit)
    change = line.cells[-1].change if len(line.cells) == 2 else None
    if change is None or change.baseline == change.actual:
        return shown
    if show_metric(change.baseline, line.unit) != show_metric(change.actual, line.unit):
        return shown
    return show_pair(change.baseline, change.actual)[index]


def _movement(line: MetricLine, cell: ValueCell) -> str:
    if cell.not_compared:
        return NOT_COMPARED
    if cell.change is None:
        return ""
    return show_movement(cell.change, line.unit)
