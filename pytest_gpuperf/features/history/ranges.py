"""Changes found in a history, put together by the range of commits that they share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from pytest_gpuperf.features.history.change_noise import ChangeNoise
from pytest_gpuperf.processes.git import GitError, run_git

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from pytest_gpuperf.baseline.store import BaselineStore
    from pytest_gpuperf.features.history.change_points import Change
    from pytest_gpuperf.features.history.order import Order
    from pytest_gpuperf.features.history.record import HistoryLine
    from pytest_gpuperf.features.history.series import Point, Series

Status: TypeAlias = Literal["slower", "faster", "returned", "accepted"]
"""`slower` is open: it neither returned to the old level nor was accepted."""
Accepted: TypeAlias = "Mapping[tuple[str, str, str], Collection[str]]"
"""Runs in the baseline of each GPU, test and label."""
SuspectName: TypeAlias = Literal["driver", "torch", "triton"]
SUSPECTS: tuple[SuspectName, ...] = ("driver", "torch", "triton")


class Suspect(NamedTuple):
    """Part of the machine that changed in the same range."""

    name: SuspectName
    before: str
    after: str

    def __str__(self) -> str:
        """Return `driver 580.95 -> 581.10`."""
        return f"{self.name} {self.before or 'none'} -> {self.after or 'none'}"


@dataclass(frozen=True)
class Found:
    """Change of one series."""

    series: Series
    change: Change
    status: Status
    note: str = ""
    """Commit at which the time returned, or to which level; else empty."""

    @property
    def before(self) -> Point:
        """Last point of the old level."""
        return self.series.points[self.change.before]

    @property
    def after(self) -> Point:
        """First point of the new level."""
        return self.series.points[self.change.after]

    @property
    def change_pct(self) -> float:
        """Change of the time in %, above 0 if it is slower."""
        return 100 * (self.change.ratio - 1)

    @property
    def interval_pct(self) -> tuple[float, float]:
        """95 % interval of the change, in %."""
        return 100 * (self.change.low - 1), 100 * (self.change.high - 1)


@dataclass(frozen=True)
class Range:
    """Range of commits, after the first up to the second, in which times of one GPU model changed."""

    gpu: str
    before: HistoryLine
    after: HistoryLine
    found: Sequence[Found]
    """Changes whose own ranges contain this one."""
    times: int
    """Number of times of this GPU model that were measured on both sides."""
    commits: int = 0
    """Number of commits in the range; 0 if git does not know them."""
    suspects: tuple[Suspect, ...] = ()
    cards: bool = field(default=False)
    """True if other cards measured the old level than the new one, so that these may be the reason."""

    @property
    def shown(self) -> str:
        """`1a2b3c4..5d6e7f8`, or the runs if no commit is known; one of them if both are the same."""
        one, other = ((line.commit[:7] if line.commit else line.run) for line in (self.before, self.after))
        return one if one == other else f"{one}..{other}"

    @property
    def open(self) -> bool:
        """True if a time is slower since, and nobody has accepted it."""
        return any(found.status == "slower" for found in self.found)


def accepted_runs(store: BaselineStore, series: Sequence[Series]) -> Accepted:
    """Return the runs of the baseline of each series.

    Raises:
        GpuperfError: A baseline file is broken.
    """
    from pytest_gpuperf.records.baseline import suite_of

    known = {}
    for one in series:
        baseline = store.load(one.gpu, suite_of(one.test))
        test = baseline.tests.get(one.test) if baseline else None
        measured = test.measurements.get(one.label) if test else None
        if measured is not None and measured.time is not None:
            known[one.gpu, one.test, one.label] = {session.run for session in measured.time.sessions}
    return known


def find_ranges(series: Sequence[Series], order: Order, accepted: Accepted, folder: Path) -> list[Range]:
    """Find the changes of all series, and put together those that may have one cause.

    Steps of one GPU model with a range in common are one entry, of the commits that they share; a creep is
    one with those of the same range.

    Args:
        series: The series.
        order: The order of their points.
        accepted: Runs in the baselines.
        folder: A folder of the repository, to count commits.

    Returns:
        The ranges by GPU, newest last.
    """
    found = [one for some in series for one in _found(some, accepted)]
    # Narrow ranges first, so that a wide one does not join two causes.
    found.sort(key=lambda one: one.change.after - one.change.before)
    groups: list[list[Found]] = []
    for one in found:
        group = next((some for some in groups if _belongs(one, some, order)), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    ranges = [_range(group, series, order, folder) for group in groups]
    return sorted(ranges, key=lambda one: (one.gpu, order.key(one.after), order.key(one.before)))


def _found(series: Series, accepted: Accepted) -> list[Found]:
    known = accepted.get((series.gpu, series.test, series.label), ())
    changes, found = series.changes, []
    back = {}
    for at, change in enumerate(changes):
        end = _return_of(changes, at)
        if end is not None and end not in back:
            back[end] = at
        status: Status = "slower" if change.ratio > 1 else "faster"
        note = ""
        if at in back:
            first = changes[back[at]]
            note = f"back to the level before {_commit(series.points[first.after])}"
        if status == "slower":
            taken = [point for point in series.points[change.after :] if point.line.run in known]
            if end is not None:
                status, note = "returned", f"to the old level at {_commit(series.points[changes[end].after])}"
            elif taken:
                status, note = "accepted", f"run {taken[0].line.run} is in the baseline"
        found.append(Found(series, change, status, note))
    return found


def _return_of(changes: Sequence[Change], at: int) -> int | None:
    """Return the index of the later change that leads back to the level before a change; None without one."""
    total = math.log(changes[at].ratio)
    zone = math.log1p(ChangeNoise().indifference_pct / 100)
    error = _half(changes[at])
    for index in range(at + 1, len(changes)):
        total += math.log(changes[index].ratio)
        error = math.hypot(error, _half(changes[index]))
        if abs(total) <= max(zone, error):
            return index
    return None


def _half(change: Change) -> float:
    return (math.log(change.high) - math.log(change.low)) / 2


def _commit(point: Point) -> str:
    return point.commit or point.line.run


def _ends(found: Sequence[Found], order: Order) -> tuple[HistoryLine, HistoryLine]:
    """Return the ends of the range that all changes share."""
    before = max((one.before.line for one in found), key=order.key)
    after = min((one.after.line for one in found), key=order.key)
    return before, after


def _belongs(one: Found, group: Sequence[Found], order: Order) -> bool:
    if one.series.gpu != group[0].series.gpu or one.change.kind != group[0].change.kind:
        return False
    before, after = map(order.key, _ends([one, *group], order))
    if one.change.kind == "creep":
        own = (order.key(group[0].before.line), order.key(group[0].after.line))
        return own == (order.key(one.before.line), order.key(one.after.line))
    return before < after


def _range(group: Sequence[Found], series: Sequence[Series], order: Order, folder: Path) -> Range:
    before, after = _ends(group, order)
    gpu = group[0].series.gpu
    first, last = order.key(before), order.key(after)
    times = [
        one
        for one in series
        if one.gpu == gpu
        and order.key(one.points[0].line) <= first
        and order.key(one.points[-1].line) >= last
    ]
    parts = [Suspect(name, getattr(before, name), getattr(after, name)) for name in SUSPECTS]
    return Range(
        gpu=gpu,
        before=before,
        after=after,
        found=sorted(group, key=lambda one: -abs(math.log(one.change.ratio))),
        times=len(times),
        commits=_count(before, after, folder) if order.by == "commits" else 0,
        suspects=tuple(part for part in parts if part.before != part.after),
        cards=all(map(_other_cards, group)),
    )


def _other_cards(found: Found) -> bool:
    cards = [point.line.gpu_uuid for point in found.series.points]
    return not set(cards[: found.change.before + 1]) & set(cards[found.change.after :])


def _count(before: HistoryLine, after: HistoryLine, folder: Path) -> int:
    try:
        return int(run_git(folder, "rev-list", "--count", f"{before.commit}..{after.commit}"))
    except (GitError, ValueError):
        return 0
