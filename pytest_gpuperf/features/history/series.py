"""Times of one test over its commits, at one SM clock."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import median_low
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pytest_gpuperf.features.history.change_noise import ChangeNoise
from pytest_gpuperf.features.history.change_points import HistoryPoint, find_changes
from pytest_gpuperf.statistics.clock_model import (
    alike_shares,
    normalisation_error,
    normalise,
    pool_models,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.history.change_points import Change
    from pytest_gpuperf.features.history.order import Order
    from pytest_gpuperf.features.history.record import HistoryLine
    from pytest_gpuperf.records import ClockModel, TimingMode, TimingSource


class Point(NamedTuple):
    """Time of a test in one run."""

    line: HistoryLine
    time_us: float
    """At the SM clock of its series, in microseconds a call."""
    sd: float
    """Standard error of the time within its session, as a part of the time; 0 if unknown."""

    @property
    def commit(self) -> str:
        """`1a2b3c4`, with a plus if files differed from it; empty if it is not known."""
        return self.line.commit[:7] + ("+" if self.line.commit and self.line.dirty else "")


@dataclass(frozen=True)
class Series:
    """Times of one mode and source of one test on one model of GPU, oldest commit first."""

    gpu: str
    test: str
    label: str
    mode: TimingMode
    source: TimingSource
    points: tuple[Point, ...]
    at_mhz: float
    """SM clock that the times were brought to; 0 if they are as measured, so that the search for changes
    estimates the effect of the clock."""
    left_out: int
    """Number of times that could not be brought to that clock."""

    @property
    def name(self) -> str:
        """Node id, then the label unless it is `main`."""
        return self.test if self.label == "main" else f"{self.test} ({self.label})"

    @property
    def gpu_name(self) -> str:
        """Name of the GPU in the driver, or its slug."""
        return self.points[-1].line.gpu_name or self.gpu

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Changes of the time; runs of changed files are left out, as their code is in no commit.

        `before` and `after` are indices of `points`.
        """
        judged = [at for at, point in enumerate(self.points) if not point.line.dirty]
        some = [self.points[at] for at in judged]
        points = [
            HistoryPoint(
                point.time_us, point.line.gpu_uuid, point.sd, 0.0 if self.at_mhz else point.line.sm_clock_mhz
            )
            for point in some
        ]
        found = find_changes(points, ChangeNoise().of(self.mode))
        return tuple(
            change._replace(before=judged[change.before], after=judged[change.after]) for change in found
        )


def series_of(lines: Sequence[HistoryLine], order: Order) -> list[Series]:
    """Put lines into series, sorted by GPU, test and label.

    Times of different modes or sources are different quantities and make different series.

    Args:
        lines: Lines of the history.
        order: Order of their commits.
    """
    groups: dict[tuple[str, str, str, TimingMode, TimingSource], list[HistoryLine]] = {}
    for line in sorted(lines, key=order.key):
        groups.setdefault((line.gpu, line.test, line.label, line.mode, line.source), []).append(line)
    return [_series(groups[key]) for key in sorted(groups)]


def _series(lines: Sequence[HistoryLine]) -> Series:
    models = [line.clock_model for line in lines if line.clock_model is not None]
    at_mhz = median_low(model.reference_mhz for model in models) if models else 0.0
    points = _at_one_clock(lines, models, at_mhz) if at_mhz else []
    if 2 * len(points) < len(lines):
        at_mhz, points = 0.0, [Point(line, line.time_us, line.standard_error) for line in lines]
    first = lines[0]
    return Series(
        first.gpu,
        first.test,
        first.label,
        first.mode,
        first.source,
        tuple(points),
        at_mhz,
        len(lines) - len(points),
    )


def _at_one_clock(lines: Sequence[HistoryLine], models: Sequence[ClockModel], at_mhz: float) -> list[Point]:
    """Bring times to one clock by one model, which their own ones make together.

    A line keeps its own model if its share differs: its commit's code depends on the clock in another way.
    """
    points = []
    pooled = pool_models(models, at_mhz)
    # The error of the mean is large if the code of some commits differs.
    mean = msgspec.structs.replace(pooled, share_error=0.0)
    for line in lines:
        own, mhz, time_us = line.clock_model, line.sm_clock_mhz, line.time_us
        model = pooled if own is None or alike_shares(own, mean) else own
        if not mhz or (own and not line.normalised_us):
            continue
        if own is not None:
            # Its blocks were brought to the clock of its own model one by one.
            time_us = normalise(line.normalised_us, own.reference_mhz, own, mhz)
        time_us = normalise(time_us, mhz, model, at_mhz)
        error = math.hypot(line.standard_error, normalisation_error(line.sm_clock_mhz, model, at_mhz))
        points.append(Point(line, time_us, error))
    return points
