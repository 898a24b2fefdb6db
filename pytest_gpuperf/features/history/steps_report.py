"""Steps found in a history, as a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gpuperf.records.change import show_signed
from pytest_gpuperf.report.number_format import count
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.history.commit_order import Order
    from pytest_gpuperf.features.history.commit_ranges import Range, SeriesStep, Status
    from pytest_gpuperf.features.history.series import TimeSeries
    from pytest_gpuperf.report.table import Tone

TONES: dict[Status, Tone] = {"slower": "bad", "faster": "good"}
"""The other ends of a step are neither good nor bad."""
_FEW_POINTS = 4
"""Below this number of points no step can be found."""


def steps_report(ranges: Sequence[Range], series: Sequence[TimeSeries], order: Order) -> Report:
    """Return a table for each range of commits, and the times searched.

    Args:
        ranges: The ranges with steps.
        series: All series that were searched.
        order: Order of their points.
    """
    short = sum(len(one.points) < _FEW_POINTS for one in series)
    left_out = sum(one.left_out for one in series)
    notes = [] if ranges else ["no change found"]
    notes.append(f"searched {searched_line(series)}, {order.shown}")
    notes += [f"{count(short, 'time')} with fewer than {_FEW_POINTS} runs: too few to tell"] * bool(short)
    if left_out:
        notes.append(f"{count(left_out, 'run')} left out: without the clock that the others have")
    records = [_record(one, found) for one in ranges for found in one.found]
    return Report([*map(steps_table, ranges), Table(notes=notes)], records)


def searched_line(series: Sequence[TimeSeries]) -> str:
    """Return `102 times at 12 commits`."""
    commits = {point.line.commit or point.line.run for one in series for point in one.points}
    return f"{count(len(series), 'time')} at {count(len(commits), 'commit')}"


def steps_table(one: Range) -> Table:
    """Return the steps of a range; the lines above name the commits, and other changes."""
    found = one.found
    columns = [
        Column("test", [each.series.name for each in found], "name", code=True),
        Column("change", [show_interval(each) for each in found], left=True),
        Column(
            "status",
            [each.status for each in found],
            "outcome",
            left=True,
            tones=[TONES.get(each.status, "") for each in found],
        ),
        Column("details", ["\n".join(_details(each, one)) for each in found], "detail"),
    ]
    days = dict.fromkeys(line.date[:10] for line in (one.before, one.after))
    above = [f"{one.after.gpu}, {one.shown}, {' to '.join(days)}"]
    if one.before.commit and one.before.commit == one.after.commit:
        above.append("both runs are of one commit: the code did not change")
    if one.suspects:
        above.append(f"changed in the same range: {', '.join(one.suspects)}")
    return Table(columns, above)


def show_interval(found: SeriesStep) -> str:
    """Return `+2.1 % (+1.8 to +2.4)`."""
    change, low, high = map(show_signed, found.change_pct)
    return f"{change} % ({low} to {high})"


def _details(found: SeriesStep, one: Range) -> list[str]:
    own, ends = ([each.before.shown, each.after.shown] for each in (found, one))
    return [f"between {own[0]} and {own[1]}"] * (own != ends) + [found.note] * bool(found.note)


def _record(one: Range, found: SeriesStep) -> dict[str, Any]:
    change, low, high = found.change_pct
    return {
        **found.series.identity,
        "change_pct": change,
        "low_pct": low,
        "high_pct": high,
        "status": found.status,
        "note": found.note,
        "before": found.before.commit or found.before.run,
        "after": found.after.commit or found.after.run,
        "suspects": one.suspects,
    }
