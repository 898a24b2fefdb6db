"""Times of one test over its commits, at one SM clock."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import median_low
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.features.history.change_points import HistoryPoint, Noise, find_steps
from pytest_gpuperf.records.call import with_label
from pytest_gpuperf.statistics.clock_model import (
    MOST_SHARE_ERROR,
    normalisation_error,
    normalise,
    pool_models,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.history.change_points import Step
    from pytest_gpuperf.features.history.commit_order import Order
    from pytest_gpuperf.features.history.history_line import HistoryLine

_SAME = ("gpu", "test", "label", "mode", "source")
"""Fields of a line by which it is of a series."""


class RunTime(NamedTuple):
    """Time of a test in one run."""

    line: HistoryLine
    time_us: float
    """At the SM clock of its series, in microseconds a call."""
    sd: float
    """Standard error of the time within its session, as a part of the time; 0 if unknown."""


@dataclass(frozen=True)
class TimeSeries:
    """Times of one mode and source of one test on one model of GPU, oldest commit first."""

    points: tuple[RunTime, ...]
    at_mhz: float
    """SM clock that the times were brought to; 0 if they are as measured, so that the search for steps
    expects an effect of the clock."""
    left_out: int
    """Number of times that could not be brought to that clock."""

    @property
    def newest(self) -> HistoryLine:
        """The newest line."""
        return self.points[-1].line

    @property
    def name(self) -> str:
        """Node id, then the label unless it is `main`."""
        return with_label(self.newest.test, self.newest.label)

    @property
    def identity(self) -> dict[str, str]:
        """The fields that all lines have in common."""
        return {name: getattr(self.newest, name) for name in _SAME}

    @property
    def origin(self) -> str:
        """`NVIDIA H200, hot by events`."""
        line = self.newest
        return f"{line.gpu_name or line.gpu}, {line.mode} by {line.source}"

    @property
    def clock(self) -> str:
        """` at 1980 MHz`; empty if the times are as measured."""
        return f" at {self.at_mhz:.0f} MHz" if self.at_mhz else ""

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Steps of the time; runs of changed files are left out, as their code is in no commit.

        `before` and `after` are indices of `points`.
        """
        return self._find_steps(cards=True)

    @cached_property
    def steps_of_cards(self) -> tuple[Step, ...]:
        """Steps that are seen, but that another card can explain."""
        if len({point.line.gpu_uuid for point in self.points}) < 2:
            return ()
        return tuple(
            seen
            for seen in self._find_steps(cards=False)
            if not any(seen.before < step.after and step.before < seen.after for step in self.steps)
        )

    def _find_steps(self, *, cards: bool) -> tuple[Step, ...]:
        judged = [at for at, point in enumerate(self.points) if not point.line.dirty]
        points = [
            HistoryPoint(
                point.time_us,
                point.line.gpu_uuid if cards else "",
                point.sd,
                0.0 if self.at_mhz else point.line.sm_clock_mhz,
            )
            for point in map(self.points.__getitem__, judged)
        ]
        found = find_steps(points, Noise().of(self.newest.mode))
        return tuple(step._replace(before=judged[step.before], after=judged[step.after]) for step in found)


def series_of(lines: Sequence[HistoryLine], order: Order) -> list[TimeSeries]:
    """Put lines into series, sorted by GPU, test and label.

    Times of different modes or sources are different quantities and make different series.

    Args:
        lines: Lines of the history.
        order: Order of their commits.
    """
    groups: dict[tuple[str, ...], list[HistoryLine]] = {}
    for line in sorted(lines, key=order.key):
        groups.setdefault(tuple(getattr(line, name) for name in _SAME), []).append(line)
    return [_series(groups[key]) for key in sorted(groups)]


def _series(lines: Sequence[HistoryLine]) -> TimeSeries:
    points = _at_one_clock(lines)
    if 2 * len(points) < len(lines):
        return TimeSeries(tuple(RunTime(line, line.time_us, line.standard_error) for line in lines), 0.0, 0)
    return TimeSeries(tuple(points), _clock(lines), len(lines) - len(points))


def _clock(lines: Sequence[HistoryLine]) -> float:
    return median_low(line.clock_model.reference_mhz for line in lines if line.clock_model)


def _at_one_clock(lines: Sequence[HistoryLine]) -> list[RunTime]:
    """Bring times to one clock by one model, which their own ones make together.

    A line keeps its own model if its share differs: its commit's code depends on the clock in another way.
    """
    models = [line.clock_model for line in lines if line.clock_model]
    if not models:
        return []
    at_mhz, points = _clock(lines), []
    pooled = pool_models(models, at_mhz)
    for line in lines:
        own, mhz, time_us = line.clock_model, line.sm_clock_mhz, line.time_us
        if not mhz or (own and not line.normalised_us):
            continue
        if own is not None:
            # Its blocks were brought to the clock of its own model one by one.
            time_us = normalise(line.normalised_us, own.reference_mhz, own, mhz)
        apart = own.share_at(at_mhz) - pooled.sm_clock_share if own is not None else 0.0
        model = own if own is not None and abs(apart) > MOST_SHARE_ERROR else pooled
        error = math.hypot(line.standard_error, normalisation_error(mhz, model, at_mhz))
        points.append(RunTime(line, normalise(time_us, mhz, model, at_mhz), error))
    return points
