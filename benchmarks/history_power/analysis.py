"""Replay all histories with all rules, and count alerts and changes found."""

from __future__ import annotations

import datetime
import sys
from itertools import product, takewhile
from multiprocessing import Pool
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from benchmarks import results_file
from benchmarks.children import ROOT
from benchmarks.history_power.measured import Timed, halves, read_tests
from benchmarks.history_power.replay import replay
from benchmarks.history_power.rules import OURS, RULES, ours, versions
from benchmarks.history_power.series import LAYOUTS, SCENARIOS, UNCHANGED, changed, unchanged
from pytest_gpuperf.features.history.change_points import LEVEL
from pytest_gpuperf.measure.device.environment import git_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

SCHEMA = 1
LEVELS = (1e-4, 3e-4, 1e-3, 3e-3)
"""Levels to try, each about three times the one before."""
TUNING, HELD_OUT = 0, 1


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts of a rule on the histories of one scenario, layout and half of the tests."""

    rule: str
    scenario: str
    layout: str
    half: int
    series: int
    points: int
    false: int
    """Number of alerts that belong to no planted change."""
    soon: int
    """Number of changes found within three commits, or before the end of a creep."""
    delays: list[int]
    """Commits until a change was found, for those that were."""
    ranges: int
    """Number of histories that have a commit range of the change in the end."""
    covered: int
    """Number of these ranges that hold the whole change."""
    width: float
    """Mean number of commits in these ranges."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One level on one half of the tests."""

    level: float
    half: int
    false: int
    """Number of alerts on unchanged code."""
    soon: float
    """Share of changes found soon, from 0 to 1: mean over the scenarios."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Results of all rules, as the page shows them."""

    schema: int
    date: str
    commit: str
    dirty: bool | None
    seed: int
    draws: int
    python: str
    versions: dict[str, str]
    """Versions of the packages that have rules."""
    tests: list[list[str]]
    """Names of the tests for tuning, and of those held out."""
    sessions: int
    """Number of fresh processes."""
    cards: int
    measured: list[int]
    """Number of different measured points of unchanged code in each half."""
    level: float
    tuned: float
    """Best level on the tuning half."""
    tuned_swapped: float
    """Best level on the half that is held out."""
    tried: list[Tried]
    figures: list[Figures]


class Task(NamedTuple):
    """Part of the work."""

    rule: str
    level: float
    """Level of this package's rule."""
    half: int
    scenario: str


def read(path: Path) -> Summary:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Summary, schema=SCHEMA)


def analyse(folder: Path, *, seed: int, draws: int, processes: int) -> Summary:
    """Make and judge all histories; the same samples and seed give the same figures.

    Args:
        folder: Folder of the samples.
        seed: Seed of the orders of sessions and of the places of changes.
        draws: Number of histories of each kind.
        processes: Number of processes that share the work.

    Raises:
        GpuperfError: A package with a rule is not installed, or samples are broken.
    """
    found = versions()
    tests = read_tests(folder)
    scenarios = [UNCHANGED.name, *(scenario.name for scenario in SCENARIOS)]
    levels = [(OURS, level) for level in LEVELS]
    others = [(rule, LEVEL) for rule in RULES if rule != OURS]
    tasks = [
        Task(rule, level, half, scenario)
        for (rule, level), half, scenario in product([*levels, *others], (TUNING, HELD_OUT), scenarios)
    ]
    with Pool(processes, _begin, (tests, seed, draws)) as pool:
        results = pool.map(_judged, tasks, chunksize=1)
    tried = [_tried(level, half, tasks, results) for level in LEVELS for half in (TUNING, HELD_OUT)]
    commit, dirty = git_state(ROOT)
    cards = {point.card for test in tests for point in test.points[0].values()}
    sessions = {(test.suite, process) for test in tests for process in test.processes}
    return Summary(
        schema=SCHEMA,
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        commit=commit,
        dirty=dirty,
        seed=seed,
        draws=draws,
        python=".".join(map(str, sys.version_info[:3])),
        versions=found,
        tests=[[test.name for test in half] for half in halves(tests)],
        sessions=len(sessions),
        cards=len(cards),
        measured=[sum(len(of) for test in half for of in test.points.values()) for half in halves(tests)],
        level=LEVEL,
        tuned=best(tried, TUNING),
        tuned_swapped=best(tried, HELD_OUT),
        tried=tried,
        figures=[
            each for task, found in zip(tasks, results, strict=True) if task.level == LEVEL for each in found
        ],
    )


_shared: tuple[Sequence[Timed], int, int] = ((), 0, 0)
"""Tests, seed and number of draws of this process."""


def _begin(tests: Sequence[Timed], seed: int, draws: int) -> None:
    """Keep in a process what all its tasks need."""
    global _shared
    _shared = tests, seed, draws


def _judged(task: Task) -> list[Figures]:
    """Replay the histories of a task."""
    return judged(task, *_shared)


def judged(task: Task, tests: Sequence[Timed], seed: int, draws: int) -> list[Figures]:
    """Replay the histories of a task, and count by layout."""
    rule = ours(task.level) if task.rule == OURS else RULES[task.rule]
    half = halves(tests)[task.half]
    scenario = next((each for each in SCENARIOS if each.name == task.scenario), UNCHANGED)
    histories = (
        unchanged(half, draws, seed) if scenario == UNCHANGED else changed(half, scenario, draws, seed)
    )
    replayed = [replay(series, rule) for series in histories]
    figures = []
    for layout in LAYOUTS:
        found = [each for each in replayed if each.series.layout == layout]
        delays = sorted(each.delay for each in found if each.delay)
        ranges = [each for each in found if each.covered is not None]
        figures.append(
            Figures(
                rule=task.rule,
                scenario=scenario.name,
                layout=layout,
                half=task.half,
                series=len(found),
                points=sum(len(each.series.points) for each in found),
                false=sum(each.false for each in found),
                soon=sum(delay <= scenario.soon for delay in delays),
                delays=delays,
                ranges=len(ranges),
                covered=sum(bool(each.covered) for each in ranges),
                width=round(fmean(each.width for each in ranges), 2) if ranges else 0.0,
            )
        )
    return figures


class Total(NamedTuple):
    """Sum of figures."""

    series: int
    points: int
    false: int
    soon: float
    """Share found soon, from 0 to 1."""
    found: float
    """Share found at all, from 0 to 1."""
    delay: float
    """Median number of commits until a change was found; 0 if none was."""
    covered: float
    """Share of commit ranges that hold the whole change, from 0 to 1."""


def total(figures: Iterable[Figures]) -> Total:
    """Add figures of several layouts or halves."""
    figures = list(figures)
    series = sum(each.series for each in figures)
    delays = [delay for each in figures for delay in each.delays]
    return Total(
        series=series,
        points=sum(each.points for each in figures),
        false=sum(each.false for each in figures),
        soon=sum(each.soon for each in figures) / max(1, series),
        found=len(delays) / max(1, series),
        delay=median(delays) if delays else 0.0,
        covered=sum(each.covered for each in figures) / max(1, sum(each.ranges for each in figures)),
    )


def _tried(level: float, half: int, tasks: Sequence[Task], results: Sequence[list[Figures]]) -> Tried:
    own = {
        task.scenario: total(found)
        for task, found in zip(tasks, results, strict=True)
        if (task.rule, task.level, task.half) == (OURS, level, half)
    }
    without = own.pop(UNCHANGED.name)
    return Tried(
        level=level, half=half, false=without.false, soon=round(fmean(each.soon for each in own.values()), 4)
    )


def best(tried: Iterable[Tried], half: int) -> float:
    """Return the largest level without false alerts there and at the next larger one, as a margin.

    Without such a level it is the smallest that was tried.
    """
    of_half = sorted((each for each in tried if each.half == half), key=lambda each: each.level)
    quiet = list(takewhile(lambda each: not each.false, of_half))
    return of_half[max(0, len(quiet) - 2)].level
