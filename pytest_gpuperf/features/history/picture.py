"""Picture of a test's time over its commits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_gpuperf.features.history.series_report import marks_of, show_four_digits
from pytest_gpuperf.features.history.steps_report import show_interval
from pytest_gpuperf.features.page.picture import Axis, Band, Picture, Points
from pytest_gpuperf.features.page.time_pictures import time_axis
from pytest_gpuperf.report.number_format import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.history.commit_order import Order
    from pytest_gpuperf.features.history.commit_ranges import Range
    from pytest_gpuperf.features.history.series import RunTime, TimeSeries
    from pytest_gpuperf.features.page.picture import Tone
    from pytest_gpuperf.features.page.run_section import SourceLinks

_TICKS = 6
"""Largest number of commits with a label."""
_TONES: dict[str, Tone] = {"slower": "bad", "faster": "good"}


def picture_of_series(
    series: TimeSeries, ranges: Sequence[Range], order: Order, links: SourceLinks
) -> Picture:
    """Make a picture with a point for each run, in the order of the commits.

    Args:
        series: The times.
        ranges: The steps found in the history; those of other series are left out.
        order: Order of the points.
        links: Addresses of commits.
    """
    steps = marks_of(series, ranges)
    points = list(enumerate(series.points, 1))
    shown = points[:: math.ceil(len(points) / _TICKS)]
    bands = [
        Band(
            low=found.step.before + 1,
            high=found.step.after + 1,
            name=f"{show_interval(found)}, {found.status}",
            tone=_TONES.get(found.status, "quiet"),
        )
        for found in steps
    ]
    names = {False: "run", True: "run of changed files"}
    drawn = [
        _points(own, name, links, hollow=dirty)
        for dirty, name in names.items()
        if (own := [(at, point) for at, point in points if bool(point.line.dirty) is dirty])
    ]
    return Picture(
        title=series.name,
        description=f"Time of {series.name} on {series.newest.gpu} in {count(len(points), 'run')}, "
        f"{count(len(steps), 'step')} found.",
        x=Axis(
            label="commit",
            ticks=tuple(float(at) for at, _ in shown),
            names=tuple(point.line.shown for _, point in shown),
        ),
        y=time_axis(f"time{series.clock} (µs)", drawn),
        marks=(*bands, *drawn),
        notes=(f"{series.origin}; {order.shown}",),
    )


def _points(points: Sequence[tuple[int, RunTime]], name: str, links: SourceLinks, *, hollow: bool) -> Points:
    return Points(
        x=tuple(float(at) for at, _ in points),
        y=tuple(point.time_us for _, point in points),
        low=tuple(point.time_us * (1 - point.sd) for _, point in points),
        high=tuple(point.time_us * (1 + point.sd) for _, point in points),
        name=name,
        tone="now",
        hollow=hollow,
        tips=tuple(
            f"{point.line.shown} of {point.line.date[:10]}: {show_four_digits(point.time_us)}"
            for _, point in points
        ),
        links=tuple(links.of_commit(point.line.known_commit) for _, point in points),
    )
