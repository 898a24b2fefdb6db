"""Options and readers that the history commands share."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.project import Project, project_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.history.branch import BranchStore
from pytest_gpuperf.features.history.order import order_of
from pytest_gpuperf.features.history.ranges import accepted_runs, find_ranges
from pytest_gpuperf.features.history.series import series_of
from pytest_gpuperf.features.history.store import FolderStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Concatenate, ParamSpec, TypeVar

    from pytest_gpuperf.features.history.order import Order
    from pytest_gpuperf.features.history.ranges import Range
    from pytest_gpuperf.features.history.series import Series
    from pytest_gpuperf.features.history.store import Store

    P = ParamSpec("P")
    R = TypeVar("R")

DEFAULT_FOLDER = "perf-history"
"""Below the root, next to the baselines: not in `.gpuperf`, which git ignores."""
_BRANCH = "branch:"


@dataclass(frozen=True)
class Searched:
    """Series of a history, and the changes in them."""

    series: Sequence[Series]
    order: Order
    ranges: Sequence[Range]
    notes: Sequence[str]


def store_options(command: Callable[Concatenate[Project, str, P], R]) -> Callable[P, R]:
    """Add `--store` and the options of a project to a command, which gets project and store."""

    @click.option(
        "--store",
        metavar="DIR|branch:NAME",
        help="Choose the folder or the branch of the history (default: gpuperf_history of pytest's "
        f"configuration, otherwise {DEFAULT_FOLDER}, below the root).",
    )
    @project_options
    @functools.wraps(command)
    def wrapper(project: Project, /, *args: P.args, **kwargs: P.kwargs) -> R:
        store = kwargs.pop("store", None)
        return command(project, str(store or ""), *args, **kwargs)

    return wrapper


def open_store(project: Project, store: str, *, push: bool = False) -> Store:
    """Return the store of a name; without one, that of the project. It may be empty.

    Raises:
        GpuperfError: The name of a branch is impossible, or only a branch can be pushed.
    """
    own = project.values.get("gpuperf_history", "").strip()
    folder = Path(store) if store else project.root / (own or DEFAULT_FOLDER)
    store = store or own
    if store.startswith(_BRANCH):
        return BranchStore(project.root, store.removeprefix(_BRANCH), push=push)
    if push:
        raise GpuperfError("--push is for a history on a branch", next_step="add --store branch:NAME")
    return FolderStore(folder)


def search(project: Project, store: str, test: str = "") -> Searched:
    """Read a history and find the changes in the series of a test.

    Args:
        project: The project.
        store: Name of the store.
        test: A node id, or a part of one; empty for all tests.

    Raises:
        GpuperfError: The history or the test is missing, or a file is broken.
    """
    history = open_store(project, store).load()
    order = order_of(history.lines, project.root)
    series = series_of(history.lines, order)
    if test:
        chosen = [one for one in series if test == one.name] or [one for one in series if test in one.name]
        if not chosen:
            raise GpuperfError(
                f"the history has no test {test!r}",
                expected="a node id, or a part of one",
                next_step="gpuperf history show lists the tests",
            )
        series = chosen
    ranges = find_ranges(series, order, accepted_runs(project.store, series), project.root)
    return Searched(series, order, ranges, history.notes)
