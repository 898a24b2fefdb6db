"""The project of a command: its runs, baselines and configuration."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.records.run_store import STATE_FOLDER, RunStore, load_run
from pytest_gpuperf.report.number_format import count
from pytest_gpuperf.settings.ini_file_search import find_config
from pytest_gpuperf.settings.options import number_of
from pytest_gpuperf.statistics.decision import MAX_TOLERANCE_PCT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sized
    from typing import Concatenate, ParamSpec

    from pytest_gpuperf.records import Run

    P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Project:
    """The folders of a project, its tolerance, and its ini keys."""

    root: Path
    baselines: Path
    tolerance_pct: float
    values: Mapping[str, str] = field(default_factory=dict)
    """The ini keys of pytest's configuration."""

    @property
    def runs(self) -> RunStore:
        """The project's run files."""
        return RunStore(self.root / STATE_FOLDER)

    @property
    def _with_recordings(self) -> RunStore:
        return RunStore(self.root / STATE_FOLDER, self.baselines, self.values.get("gpuperf_replay_gpu", ""))

    @property
    def store(self) -> BaselineStore:
        """The project's baseline files."""
        return BaselineStore(self.baselines, state=self.root / STATE_FOLDER)

    def find(self, ref: str | None) -> Path:
        """Return the file of a run or recording; see `RunStore.resolve`."""
        return self._with_recordings.resolve(ref)

    def find_for_baseline(self, ref: str | None) -> list[Path]:
        """Find runs as `find_all` does, but a recording only by its name: the baselines come from it."""
        return [self.runs.resolve(ref)] if ref in (None, "latest") else self.find_all(ref)

    def load(self, ref: str | None) -> Run:
        """Load a run or recording; the newest for None."""
        return load_run(self.find(ref))

    def find_all(self, ref: str | None) -> list[Path]:
        """Return the files of a merged run, one for each GPU; one file for every other name."""
        return self._with_recordings.resolve_all(ref)

    def load_all(self, ref: str | None) -> list[Run]:
        """Load the runs of a merged run, one for each GPU; one run for every other name."""
        return [load_run(path) for path in self.find_all(ref)]


def count_tests(tests: Sized) -> str:
    """Count tests: `1 test`, `2 tests`."""
    return count(len(tests), "test")


def show_run(run: Run) -> str:
    """Describe a run: `run 20261120-173012-3f9a, commit c0ffee1+, 2026-11-20`, with a plus if dirty."""
    commit = run.environment.commit[:7] + ("+" if run.environment.commit and run.environment.dirty else "")
    return f"run {run.id}" + (f", commit {commit}" if commit else "") + f", {run.started_at[:10]}"


def find_root(start: Path) -> Path:
    """Return the nearest folder upwards with run files or the top of a project; otherwise `start`."""
    for folder in (start, *start.parents):
        if any((folder / name).exists() for name in (STATE_FOLDER, "pyproject.toml", "setup.py", ".git")):
            return folder
    return start


def find_project(root: Path | None = None, baselines: Path | None = None) -> Project:
    """Find the same project as pytest, with its ini keys.

    Args:
        root: pytest's rootdir if it is not the folder of its configuration.
        baselines: Folder that replaces `gpuperf_baselines`.

    Raises:
        GpuperfError: pytest's configuration is broken, or has an invalid value.
    """
    config = find_config(root or Path.cwd())
    values = config.values if config else {}
    found = root or (config.folder if config else find_root(Path.cwd()))
    return Project(
        root=found,
        baselines=baselines or found / values.get("gpuperf_baselines", "baselines"),
        tolerance_pct=number_of(
            "gpuperf_tolerance", values.get("gpuperf_tolerance", "0"), most=MAX_TOLERANCE_PCT
        ),
        values=values,
    )


def project_options(command: Callable[Concatenate[Project, P], R]) -> Callable[P, R]:
    """Add `--root` and `--baselines` to a command, which gets the `Project` as its first argument."""

    @click.option(
        "--root",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Set pytest's rootdir (default: the folder of pytest's configuration; without one the nearest "
        "folder upwards with .gpuperf, pyproject.toml, setup.py or .git).",
    )
    @click.option(
        "--baselines",
        type=click.Path(path_type=Path, file_okay=False),
        help="Set the folder of the baseline files (default: gpuperf_baselines of pytest's configuration, "
        "otherwise baselines, below the root).",
    )
    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        root = kwargs.pop("root", None)
        baselines = kwargs.pop("baselines", None)
        project = find_project(
            root if isinstance(root, Path) else None, baselines if isinstance(baselines, Path) else None
        )
        return command(project, *args, **kwargs)

    return wrapper
