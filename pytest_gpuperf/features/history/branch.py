"""History on a branch of its own, which no work tree has to check out."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.history.lines import decode_lines, encode_lines, in_order
from pytest_gpuperf.features.history.store import NoHistoryError, merge
from pytest_gpuperf.processes.git import GitError, run_git

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_gpuperf.features.history.lines import HistoryLine

ATTEMPTS = 8
"""Number of times to merge and push: each failure means that somebody else has succeeded."""
LONGEST_WAIT_S = 2.0
_WHO = {
    f"GIT_{role}_{what}": text
    for role in ("AUTHOR", "COMMITTER")
    for what, text in (("NAME", "gpuperf"), ("EMAIL", "gpuperf@localhost"))
}
_MOVED = ("[rejected]", "fetch first", "cannot lock ref", "failed to update ref", "incorrect old value")
"""Words of git if a branch has moved since it was read."""


class BranchStore:
    """History on a branch: `<gpu slug>/<suite>.jsonl` in each of its commits.

    Commits are made without a work tree, on top of the branch at `origin` and of the one here. Lines of both
    are kept, so that no order of commits and pushes loses one; other files are those at `origin`.

    Args:
        folder: A folder of the repository.
        name: The branch.
        push: True to push to `origin`.

    Raises:
        GpuperfError: The name is impossible, or the folder is in no repository.
    """

    def __init__(self, folder: Path, name: str, *, push: bool = False) -> None:
        self._folder = folder
        self._name = name
        self._push = push
        self._ref, self._tracking = f"refs/heads/{name}", f"refs/remotes/origin/{name}"
        try:
            self._folder = Path(self._git("rev-parse", "--show-toplevel").rstrip("\n"))
            # Of `@{-1}` and the like, git prints the branch that they mean.
            if self._git("check-ref-format", "--branch", name).strip() != name:
                raise GitError(f"'{name}' is not a valid branch name")
        except GitError as error:
            raise GpuperfError(
                f"the history cannot be on a branch {name!r}: {error}",
                expected="a name of a branch, in a git repository",
            ) from None

    @property
    def shown(self) -> str:
        """Name of the branch in messages."""
        return f"branch {self._name}"

    def load(self) -> list[HistoryLine]:
        """Read all lines, of the branch here and of `origin` when that was fetched last.

        Raises:
            GpuperfError: The history is missing, or a file in it is broken or of a newer version.
        """
        lines = in_order(self._files(self._tips()).values())
        if not lines:
            fetch = f"git fetch origin {self._name}"
            raise NoHistoryError(self.shown, f"{fetch}, or add runs with gpuperf history add RUN")
        return lines

    def add(self, lines: Iterable[HistoryLine]) -> int:
        """Add the lines that are not there as a commit, and push it if asked to.

        If the branch has moved meanwhile, here or at `origin`, its new lines are merged and the commit is
        made again.

        Returns:
            Number of new lines.

        Raises:
            GpuperfError: A file is broken or of a newer version, the branch is checked out, or git refuses.
        """
        if f"branch {self._ref}" in self._git("worktree", "list", "--porcelain").splitlines():
            raise GpuperfError(
                f"{self.shown} is checked out: its files would seem to change under the work tree",
                next_step="git switch to another branch, or name a folder as --store",
            )
        lines, new, error = list(lines), 0, ""
        for attempt in range(ATTEMPTS):
            time.sleep(random.uniform(0, LONGEST_WAIT_S) * attempt / ATTEMPTS)  # noqa: S311  # not a secret
            try:
                if self._push and self._git("ls-remote", "--heads", "origin", self._ref).strip():
                    fetched = f"+{self._ref}:{self._tracking}"
                    self._git("fetch", "--quiet", "--no-tags", "origin", fetched)
                # A further attempt finds the lines of this one.
                new += self._commit_lines(lines)
                tip = self._tip(self._ref)
                if self._push and tip and tip != self._tip(self._tracking):
                    self._git("push", "--quiet", "origin", f"{tip}:{self._ref}")
                    self._git("update-ref", self._tracking, tip)
            except GitError as found:
                error = str(found)
                if not any(word in error for word in _MOVED):
                    break
            else:
                return new
        raise GpuperfError(
            f"{self.shown} cannot be written: git says: {error}",
            expected="a repository and an `origin` that take a commit",
            next_step="type the same again: nothing was lost",
        )

    def _commit_lines(self, lines: Iterable[HistoryLine]) -> int:
        """Move the branch here to a commit with the lines of its tips and new ones; return their number."""
        tips, before = self._tips(), self._tip(self._ref)
        files = self._files(tips)
        changed, new = merge(files, lines)
        commit = tips[0] if tips else ""
        if new or len(tips) > 1:
            both = {file: encode_lines(found) for file, found in files.items()}
            commit = self._commit(both | changed, tips)
        if commit != before:
            none = "0" * len(commit)
            self._git("update-ref", "-m", "gpuperf history add", self._ref, commit, before or none)
        return new

    def _commit(self, files: Mapping[str, bytes], parents: list[str]) -> str:
        """Write a commit with these files and the other files of its first parent, and return its id."""
        with tempfile.TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
            if parents:
                self._git("read-tree", parents[0], environment=index)
            for file, data in files.items():
                blob = self._git("hash-object", "-w", "--stdin", stdin=data).strip()
                self._git("update-index", "--add", "--cacheinfo", f"100644,{blob},{file}", environment=index)
            tree = self._git("write-tree", environment=index).strip()
        above = [argument for parent in parents for argument in ("-p", parent)]
        message = ("-m", "Add runs to the history")
        return self._git("commit-tree", tree, *above, *message, environment=_WHO).strip()

    def _tips(self) -> list[str]:
        """Return the newest commits of the branch, the one at `origin` first, none that another contains."""
        tips = list(dict.fromkeys(filter(None, map(self._tip, (self._tracking, self._ref)))))
        if len(tips) == 2:
            base = self._git("merge-base", "--all", *tips, missing="").split()
            tips = [tip for tip in tips if tip not in base]
        return tips

    def _tip(self, ref: str) -> str:
        return self._git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", missing="").strip()

    def _files(self, tips: Iterable[str]) -> dict[str, list[HistoryLine]]:
        """Read the files of several commits, and put the lines of each together."""
        found: dict[str, list[HistoryLine]] = defaultdict(list)
        for tip in tips:
            for file in self._git("ls-tree", "-r", "-z", "--full-tree", "--name-only", tip).split("\0"):
                if file.endswith(".jsonl") and file.count("/") == 1:
                    data = run_git(self._folder, "cat-file", "blob", f"{tip}:{file}")
                    found[file] += decode_lines(data, file, f"{self._name}:{file}")
        return found

    def _git(
        self,
        *arguments: str,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        missing: str | None = None,
    ) -> str:
        """Return the output of git; `missing`, if it is given, if git fails."""
        try:
            return os.fsdecode(run_git(self._folder, *arguments, stdin=stdin, environment=environment))
        except GitError:
            if missing is None:
                raise
            return missing
