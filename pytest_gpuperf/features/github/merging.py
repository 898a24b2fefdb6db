"""Runs of several GPU models or shards as one: a run for each GPU, of one commit."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import asdict, replace

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.records.run import Run


class Merged(NamedTuple):
    """Runs that belong together."""

    runs: tuple[Run, ...]
    """Sorted by GPU model. A model has several only if their environments differ."""
    notes: tuple[str, ...]
    """Facts that a reader needs before trusting the whole."""


def merge_runs(runs: Sequence[Run]) -> Merged:
    """Join the runs of each environment: the same model of GPU, versions and commit.

    Each test names its card if that is another one than the first. A run has one toolchain, so shards of two
    drivers stay two runs. A joined run has the id and date of its oldest part.

    Args:
        runs: At least one; a run that was named twice counts once.

    Raises:
        GpuperfError: No run has a test, they are of several commits, or one GPU model measured a test twice.
    """
    if not any(run.tests for run in runs):
        raise GpuperfError("no test was judged", expected="runs with tests")
    parts: list[Run] = []
    for run in sorted(runs, key=lambda run: (run.environment.gpu.slug, run.started_at, run.id)):
        if run not in parts:
            parts.append(run)
    _refuse_commits(parts)
    merged: list[Run] = []
    notes = [f"{run.id} has no tests" for run in parts if not run.tests]
    notes += [f"{run.id} was interrupted: tests may be missing" for run in parts if not run.complete]
    notes += [f"{run.id} measured changes that are not committed" for run in parts if run.environment.dirty]
    for _, found in groupby(parts, key=lambda run: run.environment.gpu.slug):
        of_model = list(found)
        _refuse_twice(of_model)
        joined: list[list[Run]] = []
        for run in of_model:
            own = next((group for group in joined if not _differences(group[0], run)), None)
            joined.append([run]) if own is None else own.append(run)
        merged += map(_join, joined)
        first = joined[0][0]
        for other in joined[1:]:
            what = ", ".join(_differences(first, other[0]))
            notes.append(f"not joined: {first.id} and {other[0].id} differ in {what}")
    return Merged(tuple(merged), tuple(notes))


def _refuse_commits(runs: Sequence[Run]) -> None:
    by_commit = {run.environment.commit: run for run in reversed(runs)}
    if len(by_commit) > 1:
        found = ", ".join(f"{run.id} of {commit[:12] or 'none'}" for commit, run in by_commit.items())
        raise GpuperfError(
            f"the runs are of several commits: {found}",
            expected="runs of one commit",
            next_step="type `gpuperf compare RUN RUN` to see what changed between two",
        )


def _refuse_twice(runs: Sequence[Run]) -> None:
    run_of: dict[str, Run] = {}
    for run in runs:
        for test in run.tests:
            other = run_of.setdefault(test.nodeid, run)
            if other is not run:
                raise GpuperfError(
                    f"{test.nodeid} was measured twice on {run.environment.gpu.name}: "
                    f"in {other.id} and {run.id}",
                    expected="each test once on each model of GPU",
                    next_step="leave one of them out; `gpuperf baseline accept` takes both as sessions",
                )


def _join(runs: Sequence[Run]) -> Run:
    first = runs[0].environment.gpu.uuid
    cards = {nodeid: card for run in runs for nodeid, card in run.cards.items() if card != first}
    tests = tuple(replace(test, gpu_uuid=cards.get(test.nodeid, "")) for run in runs for test in run.tests)
    return replace(runs[0], complete=all(run.complete for run in runs), tests=tests)


def _differences(one: Run, other: Run) -> list[str]:
    """Name the parts of two environments that differ, except the card, with both values."""
    facts, others = _facts(one), _facts(other)
    return [
        f"{name} ({value or 'unknown'} and {others[name] or 'unknown'})"
        for name, value in facts.items()
        if value != others[name]
    ]


def _facts(run: Run) -> dict[str, object]:
    gpu = {f"GPU {name}": value for name, value in asdict(run.environment.gpu).items() if name != "uuid"}
    facts = {**gpu, **asdict(run.environment.toolchain), "dirty": run.environment.dirty}
    return {**facts, "reason without counters": run.counters_unavailable}
