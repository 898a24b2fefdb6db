"""The old code as files: a git worktree in a temporary folder, which is always removed."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.processes.git import GitError
from pytest_gpuperf.processes.signals import signals_held_off

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gpuperf.against.git import Commit, Repository

PREFIX = "gpuperf-against-"
MARK = "made-by-pytest-gpuperf"
"""File in the temporary folder of a worktree, locked by its run: only a folder that holds it is removed."""


@dataclass(frozen=True)
class OldTree:
    """A commit, checked out."""

    root: Path
    """Its top folder. Its name is that of the checkout's folder, which may be a package."""
    lacks: str = ""
    """What git has not checked out, in brackets; empty if that is nothing."""

    @property
    def folder(self) -> Path:
        """The temporary folder around it; everything in it is removed together."""
        return self.root.parent


@contextmanager
def old_tree(repository: Repository, commit: Commit) -> Iterator[OldTree]:
    """Check a commit out while the block runs.

    Raises:
        GpuperfError: git cannot make a worktree.
    """
    from filelock import FileLock

    _drop_abandoned(repository)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    tree = OldTree(folder / repository.root.name)
    # While this process lives, the lock tells other runs that the worktree is not abandoned.
    lock = FileLock(folder / MARK)
    lock.acquire()
    try:
        try:
            repository.git("worktree", "add", "--detach", str(tree.root), commit.id)
        except GitError as error:
            raise GpuperfError(
                f"git cannot check {commit} out into {folder}: {error}",
                next_step="TMPDIR names a folder with more room",
            ) from None
        yield replace(tree, lacks=_submodules(repository, commit))
    finally:
        with signals_held_off():
            lock.release()
            _remove(repository, tree)


def _drop_abandoned(repository: Repository) -> None:
    """Remove worktrees of processes that were killed; leave every folder that this tool did not make."""
    from filelock import FileLock

    for mark in Path(tempfile.gettempdir()).resolve().glob(f"{PREFIX}*/{MARK}"):
        with suppress(OSError), signals_held_off():
            with FileLock(mark, timeout=0):
                pass
            for root in mark.parent.iterdir():
                _remove(repository, OldTree(root))


def _remove(repository: Repository, tree: OldTree) -> None:
    with suppress(GitError):
        # `--force` twice: git locks a worktree while it fills it.
        repository.git("worktree", "remove", "--force", "--force", str(tree.root))
    shutil.rmtree(tree.folder, ignore_errors=True)


def _submodules(repository: Repository, commit: Commit) -> str:
    listed = repository.git("ls-tree", "-r", "-z", commit.id).split("\0")
    names = [name for kind, _, name in (one.partition("\t") for one in listed) if " commit " in kind]
    return f" (git checks out no submodule of it: {', '.join(names)})" if names else ""


def link_ignored(repository: Repository, tree: OldTree) -> None:
    """Link files that git ignores and Python may import from the checkout: generated modules, extensions.

    A build runs before: it could write through a link into the checkout, or take new code into its packages.
    """
    with suppress(GitError):
        which = ("--others", "--ignored", "--exclude-standard", "--directory", "--no-empty-directory")
        for name in repository.git("ls-files", "-z", *which).split("\0"):
            # A slash ends the name of a folder that git ignores as a whole: a virtual environment, a build.
            if name.endswith((".py", ".so", ".egg-info/")):
                with suppress(OSError):  # the commit has that file, or not that folder
                    (tree.root / name).symlink_to(repository.root / name)
