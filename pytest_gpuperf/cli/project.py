"""Where a command finds the runs and baselines of a project."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.report.rows import printable
from pytest_gpuperf.runs import STATE_FOLDER, RunStore, load_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sized
    from typing import Concatenate, ParamSpec

    from pytest_gpuperf.records import Run

    P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Project:
    """The folders that a command works on."""

    root: Path
    baselines: Path

    @property
    def runs(self) -> RunStore:
        """The project's run files."""
        return RunStore(self.root / STATE_FOLDER)

    @property
    def store(self) -> BaselineStore:
        """The project's baseline files."""
        return BaselineStore(self.baselines, state=self.root / STATE_FOLDER)

    def load(self, ref: str | None) -> Run:
        """The run that `ref` names, the newest for None."""
        return load_run(self.runs.resolve(ref))


def echo(text: str) -> None:
    """Print one line; names in it come from files, so control characters are taken out."""
    click.echo(printable(text))


def count_tests(tests: Sized) -> str:
    """`1 test`, `2 tests`."""
    return f"{len(tests)} test{'' if len(tests) == 1 else 's'}"


def find_root(start: Path) -> Path:
    """The nearest folder upwards that has run files or is the top of a git checkout, else `start`."""
    for folder in (start, *start.parents):
        if (folder / STATE_FOLDER).is_dir() or (folder / ".git").exists():
            return folder
    return start


def project_options(command: Callable[Concatenate[Project, P], R]) -> Callable[P, R]:
    """Give a command `--root` and `--baselines`, and the `Project` they make as its first argument."""

    @click.option(
        "--root",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="pytest's rootdir (default: the nearest folder upwards with .gpuperf or .git).",
    )
    @click.option(
        "--baselines",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of the baseline files (default: baselines below the root).",
    )
    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        root = kwargs.pop("root", None)
        baselines = kwargs.pop("baselines", None)
        found = root if isinstance(root, Path) else find_root(Path.cwd())
        folder = baselines if isinstance(baselines, Path) else found / "baselines"
        return command(Project(found, folder), *args, **kwargs)

    return wrapper
