"""The old code as files: a worktree in a temporary folder, removed whatever happens."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from pytest_gpuperf.against.git import Commit, GitError, Repository
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.processes.signals import signals_held_off

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "gpuperf-against-"
IMPORTABLE = (".py", ".so")


@dataclass(frozen=True)
class OldTree:
    """A commit, checked out."""

    root: Path
    """Its top folder. It has the name of the checkout's, which is that of a package where it has an
    `__init__.py`."""

    @property
    def folder(self) -> Path:
        """A temporary folder around it, for what has to go when it goes."""
        return self.root.parent


@contextmanager
def old_tree(repository: Repository, commit: Commit) -> Iterator[OldTree]:
    """Check a commit out for as long as the block runs.

    What git ignores beside the code and Python imports all the same (modules that a build generates, compiled
    extensions) is linked from the checkout: nothing is built again.

    Raises:
        GpuperfError: git cannot make a worktree.
    """
    _drop_abandoned(repository)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    tree = OldTree(folder / repository.root.name)
    # Tells other runs, for as long as this process lives, that the worktree is not abandoned.
    lock = FileLock(folder / "lock")
    lock.acquire()
    try:
        try:
            repository.git("worktree", "add", "--detach", str(tree.root), commit.id)
        except GitError as error:
            raise GpuperfError(
                f"git cannot check {commit} out into {folder}: {error}",
                next_step="TMPDIR names a folder with more room",
            ) from None
        _link_ignored(repository, tree)
        yield tree
    finally:
        with signals_held_off():
            lock.release()
            _remove(repository, tree)


def _drop_abandoned(repository: Repository) -> None:
    """Remove worktrees whose process was killed."""
    with suppress(GitError):
        for line in repository.git("worktree", "list", "--porcelain").splitlines():
            kind, _, path = line.partition(" ")
            tree = OldTree(Path(path))
            if kind != "worktree" or not tree.folder.name.startswith(PREFIX):
                continue
            with suppress(Timeout), signals_held_off():
                if tree.folder.exists():
                    with FileLock(tree.folder / "lock", timeout=0):
                        pass
                _remove(repository, tree)


def _remove(repository: Repository, tree: OldTree) -> None:
    with suppress(GitError):
        # Twice: git locks a worktree while it fills it.
        repository.git("worktree", "remove", "--force", "--force", str(tree.root))
    shutil.rmtree(tree.folder, ignore_errors=True)


def _link_ignored(repository: Repository, tree: OldTree) -> None:
    try:
        listed = repository.git(
            "ls-files",
            "-z",
            "--others",
            "--ignored",
            "--exclude-standard",
            "--directory",
            "--no-empty-directory",
        )
    except GitError:
        return
    for name in filter(None, listed.split("\0")):
        # A folder of which git ignores all (a virtual environment, a build) ends with a slash.
        if not name.endswith((*IMPORTABLE, ".egg-info/")):
            continue
        link = tree.root / name
        if link.parent.is_dir() and not link.exists():
            link.symlink_to(repository.root / name)
