"""Picture of a test's time over its commits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_gpuperf.features.history.changes_report import show_interval
from pytest_gpuperf.features.page.picture import Axis, Band, Picture, Points, rounded
from pytest_gpuperf.records.change import show_value
from pytest_gpuperf.report.show import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.history.order import Order
    from pytest_gpuperf.features.history.ranges import Found, Range
    from pytest_gpuperf.features.history.series import Point, Series
    from pytest_gpuperf.features.page.picture import Tone
    from pytest_gpuperf.features.page.section import SourceLinks

_TICKS = 6
"""Largest number of commits with a label."""
_LEAST_SPAN = 0.01
"""Least range of the times, as a part of them: noise is not drawn as large as a change."""
_TONES: dict[str, Tone] = {"slower": "bad", "faster": "good"}


def picture_of_series(
    series: Series, ranges: Sequence[Range], order: Order, links: SourceLinks | None = None
) -> Picture:
    """Make a picture with a point for each run, in the order of the commits.

    Args:
        series: The times.
        ranges: The changes found in the history; those of other series are left out.
        order: Order of the points.
        links: Addresses of commits; None for no links.
    """
    changes = [found for one in ranges for found in one.found if found.series is series]
    points = list(enumerate(series.points, 1))
    step = math.ceil(len(points) / _TICKS)
    clean = [(at, point) for at, point in points if not point.line.dirty]
    changed = [(at, point) for at, point in points if point.line.dirty]
    clock = f" at {series.at_mhz:.0f} MHz" if series.at_mhz else ""
    return Picture(
        title=series.name,
        description=f"Time of {series.name} on {series.gpu} in {count(len(points), 'run')}, "
        f"{count(len(changes), 'change')} found.",
        x=Axis(
            label="commit",
            ticks=tuple(at for at, _ in points[::step]),
            names=tuple(point.commit or point.line.run for _, point in points[::step]),
        ),
        y=_times(series, f"time{clock} (µs)"),
        marks=(
            *(_band(found) for found in changes),
            *([_points(clean, "run", links)] if clean else ()),
            *([_points(changed, "run of changed files", links, hollow=True)] if changed else ()),
        ),
        notes=(
            f"{series.gpu}, {series.mode} by {series.source}; {order.shown}",
            *(
                f"{found.before.commit}..{found.after.commit}: {show_interval(found)}, {found.change.kind}, "
                f"{found.status}"
                for found in changes
            ),
        ),
    )


def _times(series: Series, label: str) -> Axis:
    times = [point.time_us for point in series.points]
    missing = _LEAST_SPAN * max(times) - (max(times) - min(times))
    if missing <= 0:
        return Axis(label=label)
    return Axis(label=label, low=min(times) - missing / 2, high=max(times) + missing / 2)


def _points(
    points: Sequence[tuple[int, Point]], name: str, links: SourceLinks | None, *, hollow: bool = False
) -> Points:
    return Points(
        x=tuple(float(at) for at, _ in points),
        y=rounded(point.time_us for _, point in points),
        low=rounded(point.time_us * (1 - point.sd) for _, point in points),
        high=rounded(point.time_us * (1 + point.sd) for _, point in points),
        name=name,
        tone="now",
        hollow=hollow,
        tips=tuple(
            f"{point.commit or 'no commit'} of {point.line.date[:10]}: {show_value(point.time_us, 4)} µs"
            for _, point in points
        ),
        links=tuple(links.of_commit(point.line.commit) for _, point in points) if links else (),
    )


def _band(found: Found) -> Band:
    return Band(
        along="x",
        low=found.change.before + 1,
        high=found.change.after + 1,
        name=f"{show_interval(found)}",
        tone=_TONES.get(found.status, "quiet"),
    )
