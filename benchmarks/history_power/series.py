"""Histories with a known truth, made of measured sessions.

A history takes each process once. Measured doses are sessions as they are; for others the times of unchanged
sessions are multiplied by a known factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.history_power.measured import Timed
    from pytest_gpuperf.features.history.change_points import HistoryPoint

Layout: TypeAlias = Literal["pool", "blocks"]
LAYOUTS: tuple[Layout, ...] = ("pool", "blocks")
"""Each commit on a card by chance, or all commits of a card before those of the next."""


SOON = 3
PROCESSES = 100_000
"""Upper bound of the numbers of processes."""


class Scenario(NamedTuple):
    """Planted change."""

    name: str
    dose: int = 0
    """Measured dose in ‰ from the change on; 0 if the change is a factor."""
    factors: tuple[float, ...] = ()
    """Time at each commit of the change over that before it; the last one stays."""

    @property
    def commits(self) -> int:
        """Return the number of commits that change the time."""
        return max(1, len(self.factors))

    @property
    def soon(self) -> int:
        """Return the number of commits within which it should be found: three, or before a creep ends."""
        return SOON if self.commits == 1 else self.commits


def _creep(percent: float, commits: int) -> Scenario:
    name = f"creep of {percent:g} % in each of {commits} commits"
    return Scenario(name, factors=tuple((1 + percent / 100) ** (at + 1) for at in range(commits)))


UNCHANGED = Scenario("unchanged")
MEASURED = tuple(Scenario(f"step of {dose / 10:g} %", dose=dose) for dose in (5, 10, 20, 50))
FACTORS = (
    Scenario("step of 0.3 %, multiplied", factors=(1.003,)),
    Scenario("step of 1 %, multiplied", factors=(1.01,)),
    _creep(0.1, 10),
    _creep(0.5, 6),
)
SCENARIOS = (*MEASURED, *FACTORS)


@dataclass(frozen=True)
class Series:
    """History of one test."""

    test: str
    suite: str
    scenario: str
    layout: Layout
    draw: int
    points: tuple[HistoryPoint, ...]
    sources: tuple[tuple[int, int], ...]
    """Dose and process of each point."""
    first: int = -1
    """Index of the first changed point; -1 without a change."""
    last: int = -1
    """Index of the first point with the whole change."""


def unchanged(tests: Sequence[Timed], draws: int, seed: int) -> Iterator[Series]:
    """Yield histories of code that does not change, with each measured dose as that code."""
    for layout in LAYOUTS:
        for draw in range(draws):
            for test in tests:
                for dose in test.doses:
                    order = _order(test, layout, draw, f"{seed} {dose}")
                    yield _series(test, UNCHANGED.name, layout, draw, [(dose, process) for process in order])


def changed(tests: Sequence[Timed], scenario: Scenario, draws: int, seed: int) -> Iterator[Series]:
    """Yield histories with a change after a third to a half of the commits.

    The tests of a suite have the same commits, so a factor changes all of them in one commit.
    """
    for layout in LAYOUTS:
        for draw in range(draws):
            for test in tests:
                if scenario.dose and scenario.dose not in test.doses:
                    continue
                order = _order(test, layout, draw, f"{seed} {scenario.name}")
                place = Random(f"{seed} {scenario.name} {layout} {draw}").uniform(1 / 3, 1 / 2)
                first = round(place * len(order))
                last = first + scenario.commits - 1
                if last > len(order) - 2:
                    continue
                doses = [(scenario.dose if at >= first else 0, process) for at, process in enumerate(order)]
                factors = [
                    scenario.factors[min(at - first, scenario.commits - 1)]
                    if scenario.factors and at >= first
                    else 1.0
                    for at in range(len(order))
                ]
                yield _series(test, scenario.name, layout, draw, doses, factors, first, last)


def _order(test: Timed, layout: Layout, draw: int, seed: str) -> list[int]:
    """Return the processes of a test in the order of their commits, the same for all tests of a suite."""
    keys = _keys(f"{seed} {layout} {draw}")
    if layout == "pool":
        return sorted(test.processes, key=lambda process: keys[process])
    first: dict[str, int] = {}
    for process in test.processes:
        first.setdefault(test.points[0][process].card, process // 1000)
    return sorted(test.processes, key=lambda process: (keys[first[test.points[0][process].card]], process))


@lru_cache(maxsize=8)  # all tests of a suite have the same
def _keys(seed: str) -> Sequence[float]:
    """Return a random number for each possible process."""
    rng = Random(seed)
    return [rng.random() for _ in range(PROCESSES)]


def _series(
    test: Timed,
    scenario: str,
    layout: Layout,
    draw: int,
    sources: Sequence[tuple[int, int]],
    factors: Sequence[float] = (),
    first: int = -1,
    last: int = -1,
) -> Series:
    measured = [test.points[dose][process] for dose, process in sources]
    points = [
        point._replace(time=point.time * factor)
        for point, factor in zip(measured, factors or [1.0] * len(measured), strict=True)
    ]
    return Series(test.name, test.suite, scenario, layout, draw, tuple(points), tuple(sources), first, last)
