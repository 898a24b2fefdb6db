"""The git repository of the tests, and its commits."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.processes.git import GitError, run_git

if TYPE_CHECKING:
    from pytest_gpuperf.records.baseline import RunNote

UNSHALLOW = "fetch-depth: 0 in actions/checkout, or git fetch --unshallow"
_ID = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Commit:
    """A commit with older code."""

    ref: str
    """The name that the user types, or the start of its id."""
    id: str
    """Empty for the checkout itself."""
    python: Path = Path(sys.executable)
    """The program of Python that runs it."""

    def __str__(self) -> str:
        """`main (1a2b3c4)`."""
        return self.ref if not self.id or self.id.startswith(self.ref) else f"{self.ref} ({self.id[:7]})"


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
                f"old code comes from git, which says of pytest's rootdir: {error}",
                expected="a git checkout",
                next_step=trust if "dubious ownership" in str(error) else "run it in a clone",
            ) from None

    def commit(self, ref: str) -> Commit:
        """Find the commit that a branch, a tag or the start of an id names.

        Raises:
            GpuperfError: No commit has that name.
        """
        try:
            found = self.git("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}").strip()
            if found.startswith("^"):
                raise GitError("Needed a single revision")
            return Commit(ref, found)
        except GitError as error:
            raise GpuperfError(
                f"--gpuperf-against={ref}: git says: {error}",
                expected="a branch, a tag or a commit of this repository",
                next_step=self._suggest(ref),
            ) from None

    def old_code(self, run: str, note: RunNote, file: Path) -> Commit:
        """Find the code of a session of a baseline: only ancestors of HEAD.

        It is the commit that was measured, if no file differed from it; else the oldest one whose baselines
        have the session.

        Args:
            run: Id of its run.
            note: What the baseline has of the run.
            file: The baseline file, which may have had another name and folder.

        Raises:
            GpuperfError: There is none.
        """
        if not file.resolve().is_relative_to(self.root):
            raise GpuperfError("no old code: the baseline lies outside of the repository")
        name = file.resolve().relative_to(self.root).as_posix()
        shallow = self._lines("rev-parse", "--is-shallow-repository") == ["true"]
        try:
            if run not in self.git("show", f"HEAD:{name}"):
                raise GpuperfError(f"the session of run {run} is not committed", next_step=f"commit {name}")
            is_commit = note.dirty is False and _ID.fullmatch(note.commit)
            if is_commit and self._lines("merge-base", note.commit, "HEAD") == [note.commit]:
                return Commit(note.commit[:7], note.commit)
            files = f":(glob)**/{file.parent.name}/*.json"
            found = self.git("log", f"-S{run}", "--format=%H %P", "HEAD", "--", files).splitlines()
        except GitError as error:
            raise GpuperfError(f"no old code: {error}", next_step="commit the baseline file") from None
        commit, _, parents = found[-1].partition(" ") if found else ("", "", "")
        # A shallow clone may end before the measured commit, and its first one seems to bring all files.
        if shallow and (is_commit or not parents):
            raise GpuperfError(f"the code of run {run} is not in this shallow clone", next_step=UNSHALLOW)
        if not _ID.fullmatch(commit):
            raise GpuperfError(f"no commit brought run {run} into {name}")
        return Commit(commit[:7], commit)

    def git(self, *arguments: str) -> str:
        """Run a git command and return its output.

        Raises:
            GitError: The command failed, or git is missing.
        """
        return os.fsdecode(run_git(self.root, *arguments))

    def _suggest(self, ref: str) -> str:
        for remote in self._lines("remote"):
            if self._lines("rev-parse", "--verify", "--quiet", f"{remote}/{ref}^{{commit}}"):
                return f"did you mean {remote}/{ref}?"
        if self._lines("rev-parse", "--is-shallow-repository") == ["true"]:
            return f"this clone is shallow: {UNSHALLOW}"
        return "git branch --all and git tag list what there is"

    def _lines(self, *arguments: str) -> list[str]:
        try:
            return self.git(*arguments).splitlines()
        except GitError:
            return []
