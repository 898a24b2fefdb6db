"""The code of the project that a fleet has to run: its commit, and changes to it as a patch."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import NamedTuple

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device.environment import git_state
from pytest_gpuperf.processes.git import GitError, run_git


class Code(NamedTuple):
    """The code of a project."""

    folder: str
    """The project below the top of its repository."""
    commit: str
    patch: bytes = b""
    """Changes to the commit, also new files that git does not ignore."""


def code_of(root: Path, *, ship: bool) -> Code:
    """Return the code of a project.

    Args:
        root: pytest's rootdir.
        ship: True if changes that are not committed run too.

    Raises:
        GpuperfError: It is in no git checkout, has no commit, or has changes that may not run.
    """
    try:
        top = Path(os.fsdecode(run_git(root, "rev-parse", "--show-toplevel")).rstrip("\n"))
    except GitError as error:
        raise GpuperfError(
            f"{root} is in no git checkout: {error}",
            expected="a repository, so that all workers can be shown to have the same code",
            next_step="type `git init` and commit the project",
        ) from None
    folder = root.resolve().relative_to(top.resolve()).as_posix()
    commit, dirty = git_state(root)
    if not commit:
        raise GpuperfError(f"{top} has no commit", next_step="type `git commit`")
    if ship:
        return Code(folder, commit, _patch(top))
    if dirty:
        raise GpuperfError(
            f"files differ from commit {commit[:12]}",
            expected="committed code, which all workers can have",
            next_step="commit it, or add --ship-changes to run it as a patch",
        )
    return Code(folder, commit)


def _patch(top: Path) -> bytes:
    """Return all changes since the commit; the index of the user stays as it is."""
    with tempfile.TemporaryDirectory(prefix="gpuperf-fleet-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        try:
            run_git(top, "read-tree", "HEAD", environment=index)
            run_git(top, "add", "--all", environment=index)
            return run_git(top, "diff", "--cached", "--binary", "--no-ext-diff", "HEAD", environment=index)
        except GitError as error:
            raise GpuperfError(
                f"git cannot make a patch of the changes: {error}", next_step="commit them"
            ) from None
