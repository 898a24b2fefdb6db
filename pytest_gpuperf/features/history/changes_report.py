"""Changes found in a history, as a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gpuperf.records.change import show_signed
from pytest_gpuperf.report.show import count
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.history.order import Order
    from pytest_gpuperf.features.history.ranges import Found, Range, Status
    from pytest_gpuperf.features.history.record import HistoryLine
    from pytest_gpuperf.features.history.series import Series
    from pytest_gpuperf.report.table import Tone

TONES: dict[Status, Tone] = {"slower": "bad", "faster": "good", "returned": "", "accepted": ""}
_FEW_POINTS = 4
"""Below this number of points no change can be found."""


def changes_report(
    ranges: Sequence[Range], series: Sequence[Series], order: Order, notes: Sequence[str] = ()
) -> Report:
    """Return a table for each range of commits, and the times searched.

    Args:
        ranges: The ranges with changes.
        series: All series that were searched.
        order: Order of their points.
        notes: Further lines for the end.
    """
    tables = [_table(one) for one in ranges]
    searched = f"searched {searched_line(series)}, {order.shown}"
    summary = [*([] if ranges else ["no change found"]), searched, *_short(series), *notes]
    records = [_record(one, found) for one in ranges for found in one.found]
    data = {
        "order": order.by,
        "why": order.why,
        "series": len(series),
        "points": sum(len(one.points) for one in series),
        "ranges": [_data(one) for one in ranges],
    }
    return Report([*tables, Table(notes=summary)], records, data)


def searched_line(series: Sequence[Series]) -> str:
    """Return `102 times at 12 commits`."""
    lines = [point.line for one in series for point in one.points]
    commits = {line.commit or line.run for line in lines}
    return f"{count(len(series), 'time')} at {count(len(commits), 'commit')}"


def range_lines(one: Range) -> list[str]:
    """Name a range of commits and other changes in it."""
    days = dict.fromkeys(line.date[:10] for line in (one.before, one.after))
    commits = f", {count(one.commits, 'commit')}" if one.commits else ""
    share = f"{len(one.found)} of {count(one.times, 'time')}"
    lines = [f"{one.gpu}, {one.shown}, {' to '.join(days)}{commits}: {share}"]
    if one.before.commit and one.before.commit == one.after.commit:
        lines.append("both runs are of one commit: the code did not change")
    if one.suspects:
        lines.append(f"changed in the same range: {', '.join(map(str, one.suspects))}")
    if one.cards:
        lines.append("other cards measured the new level than the old one")
    return lines


def show_interval(found: Found) -> str:
    """Return `+2.1 % (+1.8 to +2.4)`."""
    low, high = found.interval_pct
    return f"{show_signed(found.change_pct)} % ({show_signed(low)} to {show_signed(high)})"


def _table(one: Range) -> Table:
    found = one.found
    tones = [TONES[each.status] for each in found]
    columns = [
        Column("test", [each.series.name for each in found], "name", code=True),
        Column("change", [show_interval(each) for each in found], left=True),
        Column("kind", [each.change.kind for each in found], left=True),
        Column(
            "status",
            [each.status for each in found],
            "outcome",
            left=True,
            tones=tones,
        ),
        Column("details", ["\n".join(_details(each, one)) for each in found], "detail"),
    ]
    return Table(columns, range_lines(one))


def _details(found: Found, one: Range) -> list[str]:
    own = [point.line.commit[:7] or point.line.run for point in (found.before, found.after)]
    ends = [line.commit[:7] or line.run for line in (one.before, one.after)]
    return [f"between {own[0]} and {own[1]}"] * (own != ends) + [found.note] * bool(found.note)


def _short(series: Sequence[Series]) -> list[str]:
    short = sum(len(one.points) < _FEW_POINTS for one in series)
    left_out = sum(one.left_out for one in series)
    lines = [f"{count(short, 'time')} with fewer than {_FEW_POINTS} runs: too few to tell"] if short else []
    if left_out:
        lines.append(f"{count(left_out, 'run')} left out: without the clock that the others have")
    return lines


def _end(line: HistoryLine) -> dict[str, Any]:
    return {"commit": line.commit, "dirty": line.dirty, "run": line.run, "date": line.date}


def _data(one: Range) -> dict[str, Any]:
    return {
        "gpu": one.gpu,
        "before": _end(one.before),
        "after": _end(one.after),
        "commits": one.commits,
        "times": one.times,
        "suspects": [{"name": name, "before": old, "after": new} for name, old, new in one.suspects],
        "other_cards": one.cards,
        "found": [_found(each) for each in one.found],
    }


def _found(found: Found) -> dict[str, Any]:
    low, high = found.interval_pct
    return {
        "test": found.series.test,
        "label": found.series.label,
        "mode": found.series.mode,
        "source": found.series.source,
        "kind": found.change.kind,
        "change_pct": found.change_pct,
        "low_pct": low,
        "high_pct": high,
        "status": found.status,
        "note": found.note,
        "before": _end(found.before.line),
        "after": _end(found.after.line),
    }


def _record(one: Range, found: Found) -> dict[str, Any]:
    low, high = found.interval_pct
    return {
        "gpu": one.gpu,
        "test": found.series.test,
        "label": found.series.label,
        "kind": found.change.kind,
        "change_pct": found.change_pct,
        "low_pct": low,
        "high_pct": high,
        "status": found.status,
        "note": found.note,
        "before": found.before.line.commit or found.before.line.run,
        "after": found.after.line.commit or found.after.line.run,
        "suspects": [str(suspect) for suspect in one.suspects],
    }
