"""Series of a history as tables: all of them, and one by its commits."""

from __future__ import annotations

from itertools import groupby
from statistics import fmean
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.features.history.commit_ranges import SeriesStep
from pytest_gpuperf.features.history.steps_report import TONES, searched_line, show_interval
from pytest_gpuperf.records.change import show_value
from pytest_gpuperf.report.number_format import count
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.history.commit_order import Order
    from pytest_gpuperf.features.history.commit_ranges import Range
    from pytest_gpuperf.features.history.series import TimeSeries

_LONGEST_NAME = 36
_DIGITS = 4
"""Digits of a time in a table of commits."""


def steps_of(series: TimeSeries, ranges: Sequence[Range]) -> list[SeriesStep]:
    """Return the steps of a series, among those of all."""
    return [found for one in ranges for found in one.found if found.series is series]


def marks_of(series: TimeSeries, ranges: Sequence[Range]) -> list[SeriesStep]:
    """Return the steps of a series, then those that another card explains."""
    return [
        *steps_of(series, ranges),
        *(SeriesStep(series, step, "other card") for step in series.steps_of_cards),
    ]


def overview(series: Sequence[TimeSeries], ranges: Sequence[Range], order: Order) -> Report:
    """Return a table with a row for each series.

    Args:
        series: The series.
        ranges: The steps found in them.
        order: Order of their points.
    """
    newest = [steps_of(one, ranges)[-1:] for one in series]
    columns = [
        Column("suite", [f"{one.newest.gpu}, {one.name.partition('::')[0]}" for one in series], "group"),
        Column(
            "test", [one.name.partition("::")[2] for one in series], "name", code=True, most=_LONGEST_NAME
        ),
        Column("runs", [str(len(one.points)) for one in series]),
        Column("time", [show_four_digits(one.points[-1].time_us) for one in series]),
        Column("newest change", [show_interval(found[0]) if found else "" for found in newest], left=True),
        Column(
            "status",
            [found[0].status if found else "" for found in newest],
            "outcome",
            left=True,
            tones=[TONES.get(found[0].status, "") if found else "" for found in newest],
        ),
    ]
    records = [
        {
            **one.identity,
            "at_mhz": one.at_mhz,
            "runs": len(one.points),
            "time_us": one.points[-1].time_us,
            "commit": one.newest.commit,
            "newest_change_pct": found[0].change_pct[0] if found else None,
            "status": found[0].status if found else "",
        }
        for one, found in zip(series, newest, strict=True)
    ]
    return Report([Table(columns, notes=[f"{searched_line(series)}, {order.shown}"])], records)


def detailed(series: Sequence[TimeSeries], ranges: Sequence[Range], order: Order, *, last: int) -> Report:
    """Return a table for each series with a row for each commit.

    Args:
        series: The series.
        ranges: The steps found in them.
        order: Order of their points.
        last: Number of commits to show, the newest; 0 for all.
    """
    tables = [_table(one, marks_of(one, ranges), last) for one in series]
    records = [
        {**msgspec.structs.asdict(point.line), "clock_model": "", "at_one_clock_us": point.time_us}
        for one in series
        for point in one.points
    ]
    return Report([*tables, Table(notes=[order.shown])], records)


def _table(series: TimeSeries, steps: Sequence[SeriesStep], last: int) -> Table:
    rows = [list(points) for _, points in groupby(series.points, lambda point: point.line.shown)]
    shown = rows[-last:] if last else rows
    older = len(rows) - len(shown)
    lines = [points[0].line for points in shown]
    marks = [[each for each in steps if each.after in [one.line for one in points]] for points in shown]
    return Table(
        [
            Column("commit", [line.shown for line in lines], "name", code=True),
            Column("date", [(line.commit_date or line.date)[:10] for line in lines]),
            Column("runs", [str(len(points)) for points in shown]),
            Column("time", [show_four_digits(fmean(point.time_us for point in points)) for points in shown]),
            Column("change", ["\n".join(map(_mark, each)) for each in marks], "detail"),
        ],
        [f"{series.name}, {series.origin}{series.clock or ', as measured'}"],
        [f"{count(older, 'older commit')} not shown: --last 0 shows all"] if older else [],
    )


def _mark(found: SeriesStep) -> str:
    since = f" since {found.before.shown}" if found.step.after - found.step.before > 1 else ""
    note = f": {found.note}" if found.note else ""
    return f"step{since} {show_interval(found)}, {found.status}{note}"


def show_four_digits(time_us: float) -> str:
    """Show a time with four digits: `5.301 µs`."""
    return f"{show_value(time_us, _DIGITS)} µs"
