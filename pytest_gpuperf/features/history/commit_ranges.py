"""Steps found in a history, put together by the range of commits that they share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from pytest_gpuperf.features.history.change_points import Noise
from pytest_gpuperf.records.baseline import suite_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pytest_gpuperf.baseline.store import BaselineStore
    from pytest_gpuperf.features.history.change_points import Step
    from pytest_gpuperf.features.history.commit_order import Order
    from pytest_gpuperf.features.history.history_line import HistoryLine
    from pytest_gpuperf.features.history.series import TimeSeries

Status: TypeAlias = Literal["slower", "faster", "returned", "accepted", "other card"]
"""`slower` is open: it neither returned to the old level nor was accepted. `other card` may be the
reason of a step that is none of the code."""
Accepted: TypeAlias = "Mapping[tuple[str, str, str], Collection[str]]"
"""Runs in the baseline of each GPU, test and label."""


@dataclass(frozen=True)
class SeriesStep:
    """Step of one series."""

    series: TimeSeries
    step: Step
    status: Status
    note: str = ""
    """Commit at which the time returned, or run that was accepted; else empty."""

    @property
    def before(self) -> HistoryLine:
        """Last line of the old level."""
        return self.series.points[self.step.before].line

    @property
    def after(self) -> HistoryLine:
        """First line of the new level."""
        return self.series.points[self.step.after].line

    @property
    def change_pct(self) -> tuple[float, float, float]:
        """Change of the time in %, above 0 if it is slower, and the ends of its 95 % interval."""
        step = self.step
        return 100 * (step.ratio - 1), 100 * (step.low - 1), 100 * (step.high - 1)


@dataclass(frozen=True)
class Range:
    """Range of commits, after the first up to the second, in which times of one GPU model changed."""

    before: HistoryLine
    after: HistoryLine
    found: Sequence[SeriesStep]
    """Steps whose own ranges contain this one."""
    suspects: tuple[str, ...]
    """Other changes in the range: `driver 580.95 -> 581.10`, `the cards`."""

    @property
    def shown(self) -> str:
        """`1a2b3c4..5d6e7f8`, or the runs if no commit is known; one of them if both are the same."""
        return "..".join(dict.fromkeys((self.before.shown, self.after.shown)))

    @property
    def open(self) -> bool:
        """True if a time is slower since, and nobody has accepted it."""
        return any(found.status == "slower" for found in self.found)


def accepted_runs(store: BaselineStore, series: Sequence[TimeSeries]) -> Accepted:
    """Return the runs of the baseline of each series.

    Raises:
        GpuperfError: A baseline file is broken.
    """
    known = {}
    for line in (one.newest for one in series):
        baseline = store.load(line.gpu, suite_of(line.test))
        test = baseline.tests.get(line.test) if baseline else None
        measured = test.measurements.get(line.label) if test else None
        if measured is not None and measured.time is not None:
            known[line.gpu, line.test, line.label] = {session.run for session in measured.time.sessions}
    return known


def find_ranges(series: Sequence[TimeSeries], order: Order, accepted: Accepted) -> list[Range]:
    """Find the steps of all series; steps of one GPU model with a range in common are one entry.

    Args:
        series: The series.
        order: The order of their points.
        accepted: Runs in the baselines.

    Returns:
        The ranges by GPU, newest last.
    """
    found = [one for some in series for one in _found(some, accepted)]
    # Narrow ranges first, so that a wide one does not join two causes.
    found.sort(key=lambda one: one.step.after - one.step.before)
    groups: list[list[SeriesStep]] = []
    for one in found:
        for group in groups:
            before, after = _ends([one, *group], order)
            if one.before.gpu == group[0].before.gpu and order.key(before) < order.key(after):
                group.append(one)
                break
        else:
            groups.append([one])
    ranges = [_range(group, order) for group in groups]
    return sorted(ranges, key=lambda one: (one.after.gpu, order.key(one.after), order.key(one.before)))


def _found(series: TimeSeries, accepted: Accepted) -> list[SeriesStep]:
    line = series.newest
    known = accepted.get((line.gpu, line.test, line.label), ())
    found = []
    for at, step in enumerate(series.steps):
        status: Status = "slower" if step.ratio > 1 else "faster"
        note = ""
        if status == "slower":
            runs = [point.line.run for point in series.points[step.after :] if point.line.run in known]
            back = _return_of(series.steps[at:])
            if back is not None:
                status, note = "returned", f"to the old level at {series.points[back.after].line.shown}"
            elif runs:
                status, note = "accepted", f"run {runs[0]} is in the baseline"
        found.append(SeriesStep(series, step, status, note))
    return found


def _return_of(steps: Sequence[Step]) -> Step | None:
    """Return the step that leads back to the level before the first one; None without one."""
    total = error = 0.0
    zone = math.log1p(Noise().indifference_pct / 100)
    for number, step in enumerate(steps):
        total += math.log(step.ratio)
        error = math.hypot(error, (math.log(step.high) - math.log(step.low)) / 2)
        if number and abs(total) <= max(zone, error):
            return step
    return None


def _ends(found: Sequence[SeriesStep], order: Order) -> tuple[HistoryLine, HistoryLine]:
    """Return the ends of the range that all steps share."""
    before = max((one.before for one in found), key=order.key)
    return before, min((one.after for one in found), key=order.key)


def _range(group: Sequence[SeriesStep], order: Order) -> Range:
    before, after = _ends(group, order)
    suspects = [
        f"{name} {old or 'none'} -> {new or 'none'}"
        for name in ("driver", "torch", "triton")
        if (old := getattr(before, name)) != (new := getattr(after, name))
    ]
    if all(map(_other_cards, group)):
        suspects.append("the cards")
    found = sorted(group, key=lambda one: -abs(math.log(one.step.ratio)))
    return Range(before, after, found, tuple(suspects))


def _other_cards(found: SeriesStep) -> bool:
    """Return True if other cards measured the old level than the new one: they may be the reason."""
    cards = [point.line.gpu_uuid for point in found.series.points]
    return not set(cards[: found.step.before + 1]) & set(cards[found.step.after :])
