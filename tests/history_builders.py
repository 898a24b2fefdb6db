"""Lines and repositories for tests of the history."""

from __future__ import annotations

import multiprocessing
import subprocess
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gpuperf.features.history.history_line import HISTORY_SCHEMA, HistoryLine
from run_builders import NODEID

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


NOISE = (0.0, 0.0004, -0.0003, 0.0002, -0.0004, 0.0001, 0.0003, -0.0002)
"""Parts of a time by which sessions of one code differ."""


def commit_of(number: int) -> str:
    """Return an id that no repository has."""
    return f"{number:07x}".ljust(40, "0")


def line(number: int = 0, time_us: float = 5.3, **values: Any) -> HistoryLine:
    """Return the line of run `number`, which is also the number of its commit."""
    known = HistoryLine(
        schema=HISTORY_SCHEMA,
        test=NODEID,
        gpu="nvidia-h200",
        gpu_uuid="GPU-1",
        run=f"run-{number:04}",
        date=f"2026-11-{1 + number // 24:02}T{number % 24:02}:00:00Z",
        commit=commit_of(number),
        mode="hot",
        time_us=time_us,
        driver="580.95",
        torch="2.11.0",
        triton="3.6.0",
    )
    return msgspec.structs.replace(known, **values)


def times(*levels: float, **values: Any) -> list[HistoryLine]:
    """Return a line for each level, with the noise of sessions."""
    return [line(at, level * (1 + NOISE[at % len(NOISE)]), **values) for at, level in enumerate(levels)]


def git(folder: Path, *arguments: str) -> str:
    """Run git as somebody with a name."""
    who = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def commits(folder: Path, number: int) -> list[str]:
    """Make a repository of so many commits, oldest first."""
    git(folder, "init", "-q")
    for at in range(number):
        git(folder, "commit", "-q", "--allow-empty", "-m", str(at))
    return git(folder, "rev-list", "--reverse", "HEAD").split()


def at_once(add: Callable[[Path, list[int]], None], *shares: tuple[Path, list[int]]) -> None:
    """Call a function in a process for each share, all at the same time."""
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=add, args=share) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
