"""Series of a history as tables: all of them, and one with a plot of dots."""

from __future__ import annotations

import math
from itertools import groupby
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.features.history.changes_report import TONES, searched_line, show_interval
from pytest_gpuperf.report.show import count, show_time
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.history.order import Order
    from pytest_gpuperf.features.history.ranges import Found, Range
    from pytest_gpuperf.features.history.series import Point, Series

_OTHERS = 44
"""Width of the columns before the plot, in characters."""
_LEAST_PLOT = 12
_MOST_PLOT = 60
_LEAST_SPAN = 0.002
"""Least range of the plot, as a part of the time: noise is not shown as large as a change."""
SPARKS = "▁▂▃▄▅▆▇█"
_MOST_SPARKS = 24
_LONGEST_NAME = 36
_TOLD = 4
"""Digits of a time in a table of commits."""


def overview(series: Sequence[Series], ranges: Sequence[Range], order: Order, notes: Sequence[str]) -> Report:
    """Return a table with a row for each series.

    Args:
        series: The series.
        ranges: The changes found in them.
        order: Order of their points.
        notes: Lines for the end.
    """
    changes = {
        id(one): [found for some in ranges for found in some.found if found.series is one] for one in series
    }
    newest = [changes[id(one)][-1:] for one in series]
    names = [one.name.partition("::")[2] for one in series]
    columns = [
        Column("suite", [f"{one.gpu}, {one.test.partition('::')[0]}" for one in series], "group"),
        Column("test", names, "name", code=True, most=_LONGEST_NAME),
        Column("runs", [str(len(one.points)) for one in series]),
        Column("time", [show_four_digits(one.points[-1].time_us) for one in series]),
        Column("course", [_sparks(one) for one in series], left=True),
        Column("newest change", [show_interval(found[0]) if found else "" for found in newest], left=True),
        Column(
            "status",
            [found[0].status if found else "" for found in newest],
            "outcome",
            left=True,
            tones=[TONES[found[0].status] if found else "" for found in newest],
        ),
    ]
    records = [_summary(one, changes[id(one)]) for one in series]
    return Report([Table(columns, notes=[f"{searched_line(series)}, {order.shown}", *notes])], records)


def detailed(
    series: Sequence[Series],
    ranges: Sequence[Range],
    order: Order,
    notes: Sequence[str],
    *,
    width: int,
    last: int,
) -> Report:
    """Return a table for each series with a row for each commit, and a plot of its runs.

    Args:
        series: The series.
        ranges: The changes found in them.
        order: Order of their points.
        notes: Lines for the end.
        width: Width of the screen, in characters.
        last: Number of commits to show, the newest; 0 for all.
    """
    found = [each for one in ranges for each in one.found]
    tables = [_table(one, [each for each in found if each.series is one], width, last) for one in series]
    records = [_record(one, point) for one in series for point in one.points]
    return Report([*tables, Table(notes=[order.shown, *notes])], records)


def _table(series: Series, changes: Sequence[Found], width: int, last: int) -> Table:
    rows = [list(points) for _, points in groupby(series.points, _row)]
    shown = rows[-last:] if last else rows
    older = len(rows) - len(shown)
    marks = [[each for each in changes if each.after in points] for points in shown]
    columns = max(_LEAST_PLOT, min(width - _OTHERS, _MOST_PLOT))
    low, high = _limits([point for points in shown for point in points])
    return Table(
        [
            Column("commit", [points[0].commit or points[0].line.run for points in shown], "name", code=True),
            Column("date", [(points[0].line.commit_date or points[0].line.date)[:10] for points in shown]),
            Column("runs", [str(len(points)) for points in shown]),
            Column("time", [show_four_digits(fmean(point.time_us for point in points)) for points in shown]),
            Column(
                _ends(show_four_digits(low), show_four_digits(high), columns),
                [_dots(points, low, high, columns) for points in shown],
                left=True,
            ),
            Column("change", ["\n".join(map(_mark, each)) for each in marks], "detail"),
        ],
        [f"{series.name}, {series.gpu_name}, {series.mode} by {series.source}{_clock(series)}"],
        [f"{count(older, 'older commit')} not shown: --last 0 shows all"] if older else [],
    )


def _ends(low: str, high: str, columns: int) -> str:
    return f"{low} {high:>{max(columns - len(low) - 1, 0)}}"


def _row(point: Point) -> str:
    return point.commit or point.line.run


def _mark(found: Found) -> str:
    wide = found.change.after - found.change.before > 1
    since = f" since {_row(found.before)}" if wide else ""
    note = f": {found.note}" if found.note else ""
    return f"{found.change.kind}{since} {show_interval(found)}, {found.status}{note}"


def _clock(series: Series) -> str:
    return f", at {series.at_mhz:.0f} MHz" if series.at_mhz else ", as measured"


def show_four_digits(time_us: float) -> str:
    """Show a time with four digits: `5.301 µs`."""
    shown = show_time(time_us)
    _, unit = shown.split()
    value = time_us / {"µs": 1.0, "ms": 1e3, "s": 1e6}[unit]
    return f"{value:.{max(0, _TOLD - 1 - math.floor(math.log10(value)))}f} {unit}"


def _limits(points: Sequence[Point]) -> tuple[float, float]:
    low = min(point.time_us for point in points)
    high = max(point.time_us for point in points)
    missing = max(0.0, _LEAST_SPAN * high - (high - low)) / 2
    return low - missing, high + missing


def _dots(points: Sequence[Point], low: float, high: float, columns: int) -> str:
    """Draw the runs of a commit: `●`, or `○` if files differed from the commit; lines are standard errors."""
    cells = ["·"] * columns

    def place(time_us: float) -> int:
        return min(columns - 1, max(0, round((time_us - low) / (high - low) * (columns - 1))))

    for point in points:
        for at in range(place(point.time_us * (1 - point.sd)), place(point.time_us * (1 + point.sd)) + 1):
            cells[at] = "─"
    for point in points:
        cells[place(point.time_us)] = "○" if point.line.dirty else "●"
    return "".join(cells)


def _sparks(series: Series) -> str:
    """Draw the newest times in a line; noise below 0.2 % is level."""
    points = series.points[-_MOST_SPARKS:]
    low, high = _limits(points)
    steps = len(SPARKS) - 1
    return "".join(SPARKS[round((point.time_us - low) / (high - low) * steps)] for point in points)


def _summary(series: Series, changes: Sequence[Found]) -> dict[str, Any]:
    newest = changes[-1] if changes else None
    return {
        "gpu": series.gpu,
        "test": series.test,
        "label": series.label,
        "mode": series.mode,
        "source": series.source,
        "at_mhz": series.at_mhz,
        "runs": len(series.points),
        "time_us": series.points[-1].time_us,
        "commit": series.points[-1].line.commit,
        "changes": len(changes),
        "newest_change_pct": newest.change_pct if newest else None,
        "status": newest.status if newest else "",
    }


def _record(series: Series, point: Point) -> dict[str, Any]:
    line = point.line
    return {
        "gpu": series.gpu,
        "test": series.test,
        "label": series.label,
        "mode": series.mode,
        "source": series.source,
        "commit": line.commit,
        "dirty": line.dirty,
        "commit_date": line.commit_date,
        "run": line.run,
        "date": line.date,
        "card": line.gpu_uuid,
        "time_us": point.time_us,
        "at_mhz": series.at_mhz,
        "standard_error": point.sd,
        "raw_us": line.time_us,
        "driver": line.driver,
        "torch": line.torch,
        "triton": line.triton,
    }
