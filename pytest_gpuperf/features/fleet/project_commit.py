"""The code of the project that a fleet has to run: its commit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device.environment import git_state
from pytest_gpuperf.processes.git import GitError, run_git


class Code(NamedTuple):
    """The code of a project."""

    top: Path
    """Top of its repository."""
    commit: str


def code_of(folder: Path) -> Code:
    """Return the code of a checkout without changes.

    Raises:
        GpuperfError: The folder is in no git checkout, has no commit, or has changes that are not committed.
    """
    try:
        top = Path(os.fsdecode(run_git(folder, "rev-parse", "--show-toplevel")).rstrip("\n"))
    except GitError as error:
        raise GpuperfError(
            f"{folder} is in no git checkout: {error}",
            expected="a repository, so that all workers can be shown to have the same code",
            next_step="type `git init` and commit the project",
        ) from None
    commit, dirty = git_state(folder)
    if not commit:
        raise GpuperfError(f"{top} has no commit", next_step="type `git commit`")
    if dirty:
        raise GpuperfError(
            f"files in {top} differ from commit {commit[:12]}",
            expected="committed code, which all workers can have",
            next_step="commit the changes, or restore the files",
        )
    return Code(top, commit)
