"""The git repository of the tests, and its commits."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.processes.git import GitError, run_git


@dataclass(frozen=True)
class Commit:
    """The commit that `--gpuperf-against` names."""

    ref: str
    """The name that the user types."""
    id: str

    def __str__(self) -> str:
        """`main (1a2b3c4)`."""
        return self.ref if self.id.startswith(self.ref) else f"{self.ref} ({self.id[:7]})"


@dataclass(frozen=True)
class Repository:
    """A git checkout."""

    root: Path
    """Its top folder, without symbolic links."""

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """Find the checkout that contains a folder.

        Raises:
            GpuperfError: None contains it, git cannot run, or git does not trust the folder's owner.
        """
        try:
            return cls(Path(cls(folder).git("rev-parse", "--show-toplevel").rstrip("\n")).resolve())
        except GitError as error:
            trust = f"type git config --global --add safe.directory {folder}"
            raise GpuperfError(
                f"--gpuperf-against takes old code from git, which says of pytest's rootdir: {error}",
                expected="a git checkout",
                next_step=trust if "dubious ownership" in str(error) else "run it in a clone",
            ) from None

    def commit(self, ref: str) -> Commit:
        """Find the commit that a branch, a tag or the start of an id names.

        Raises:
            GpuperfError: No commit has that name.
        """
        try:
            return Commit(ref, self._id(ref))
        except GitError as error:
            raise GpuperfError(
                f"--gpuperf-against={ref}: git says: {error}",
                expected="a branch, a tag or a commit of this repository",
                next_step=self._suggest(ref),
            ) from None

    def git(self, *arguments: str) -> str:
        """Run a git command and return its output.

        Raises:
            GitError: The command failed, or git is missing.
        """
        return os.fsdecode(run_git(self.root, *arguments))

    def _id(self, ref: str) -> str:
        found = self.git("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}").strip()
        if found.startswith("^"):
            raise GitError("Needed a single revision")
        return found

    def _suggest(self, ref: str) -> str:
        for remote in self._lines("remote"):
            try:
                self._id(f"{remote}/{ref}")
            except GitError:
                continue
            return f"did you mean {remote}/{ref}?"
        if self._lines("rev-parse", "--is-shallow-repository") == ["true"]:
            return "this clone is shallow: fetch-depth: 0 in actions/checkout, or git fetch --unshallow"
        return "git branch --all and git tag list what there is"

    def _lines(self, *arguments: str) -> list[str]:
        try:
            return self.git(*arguments).splitlines()
        except GitError:
            return []
