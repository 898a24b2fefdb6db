"""History on a branch of its own, which no work tree has to check out."""

from __future__ import annotations

import os
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.history.lines import decode_file, encode_file, encode_line
from pytest_gpuperf.features.history.store import (
    Added,
    History,
    NoHistoryError,
    by_place,
    history_of,
    torn_note,
    union,
)
from pytest_gpuperf.processes.git import GitError, run_git

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_gpuperf.features.history.lines import Lines
    from pytest_gpuperf.features.history.record import HistoryLine

ATTEMPTS = 8
"""Number of times to merge and push: each failure means that somebody else has succeeded."""
LONGEST_WAIT_S = 2.0
_SUFFIX = ".jsonl"
_NAME = "gpuperf"
_MOVED = ("[rejected]", "fetch first", "cannot lock ref", "failed to update ref", "incorrect old value")
"""Words of git if a branch has moved since it was read."""


class BranchStore:
    """History on a branch: `<gpu slug>/<suite>.jsonl` in each of its commits.

    Commits are made without a work tree, on top of the branch here and of the remote's. Lines of both are
    kept, so that no order of commits and pushes loses one.

    Args:
        folder: A folder of the repository.
        name: The branch.
        push: True to push to the remote of the branch, otherwise `origin`.
    """

    def __init__(self, folder: Path, name: str, *, push: bool = False) -> None:
        self._folder = folder
        self._name = name
        self._push = push
        self._ref = f"refs/heads/{name}"
        try:
            self._folder = Path(self._git("rev-parse", "--show-toplevel").rstrip("\n"))
            self._git("check-ref-format", self._ref)
            remotes = self._git("remote").split()
        except GitError as error:
            raise GpuperfError(
                f"the history cannot be on a branch {name!r}: {error}",
                expected="a name of a branch, in a git repository",
            ) from None
        named = self._config(f"branch.{name}.remote")
        self._remote = named or ("origin" if "origin" in remotes else remotes[0] if remotes else "")
        self._tracking = f"refs/remotes/{self._remote}/{name}"

    @property
    def shown(self) -> str:
        """Name of the branch in messages."""
        return f"branch {self._name}"

    def load(self) -> History:
        """Read all lines, of the branch here and of its remote when that was fetched last.

        Raises:
            GpuperfError: The history is missing, or a file in it is broken or of a newer version.
        """
        found = self._read(self._tips())
        if not found:
            fetch = f"git fetch {self._remote or 'REMOTE'} {self._name}"
            raise NoHistoryError(self.shown, f"{fetch}, or add runs with gpuperf history add RUN")
        return history_of(found)

    def add(self, lines: Iterable[HistoryLine]) -> Added:
        """Add the lines that are not there, as a commit; push it if asked to.

        If the branch has moved meanwhile, here or at the remote, its new lines are merged and the commit is
        made again.

        Raises:
            GpuperfError: As `load`; the branch is checked out; git or the remote refuses.
        """
        if self._push and not self._remote:
            raise GpuperfError(
                "the repository has no remote to push to", next_step="git remote add origin URL"
            )
        self._refuse_checked_out()
        grouped = by_place(lines)
        new, notes, error = 0, [], ""
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0, LONGEST_WAIT_S) * attempt / ATTEMPTS)  # noqa: S311  # not a secret
            try:
                if self._push:
                    self._fetch()
                added = self._commit_lines(grouped)
                # A further attempt finds the lines of this one.
                new += added.new
                notes += added.notes
                if self._push:
                    self._push_tip()
            except GitError as found:
                error = str(found)
                if not any(word in error for word in _MOVED):
                    break
            else:
                return Added(new, notes)
        raise GpuperfError(
            f"{self.shown} cannot be written: git says: {error}",
            expected="a repository and remote that take a commit",
            next_step="type the same again: nothing was lost",
        )

    def _commit_lines(self, new: Mapping[tuple[str, str], list[HistoryLine]]) -> Added:
        """Add lines to those of the branch here and at the remote, and move the branch here to the result."""
        before, tips = self._tip(self._ref), self._tips()
        known = self._read(tips)
        merged = {name: found.lines for name, found in known.items()}
        for (slug, suite), lines in new.items():
            name = f"{slug}/{suite}{_SUFFIX}"
            merged[name] = union(merged.get(name, {}), {encode_line(line): line for line in lines})
        count = sum(map(len, merged.values())) - sum(len(found.lines) for found in known.values())
        torn = [torn_note(self._of(name), found, "removed") for name, found in known.items() if found.torn]
        commit = tips[0] if tips else ""
        if count or torn or len(tips) > 1:
            commit = self._commit({name: encode_file(lines) for name, lines in merged.items()}, tips)
        if commit != before:
            none = "0" * len(commit)
            self._git("update-ref", "-m", "gpuperf history add", self._ref, commit, before or none)
        return Added(count, torn)

    def _push_tip(self) -> None:
        commit = self._tip(self._ref)
        if commit and commit != self._tip(self._tracking):
            self._git("push", "--quiet", self._remote, f"{commit}:{self._ref}")
            self._git("update-ref", self._tracking, commit)

    def _fetch(self) -> None:
        listed = self._git("ls-remote", "--heads", self._remote, self._ref)
        if listed.strip():
            self._git("fetch", "--quiet", "--no-tags", self._remote, f"+{self._ref}:{self._tracking}")

    def _commit(self, files: Mapping[str, bytes], parents: list[str]) -> str:
        """Write a commit with these files and the other files of its parents, and return its id."""
        with tempfile.TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
            if len(parents) > 1:
                ways = (self._base(parents), *parents)
                self._git("read-tree", "-i", "-m", "--aggressive", *ways, environment=index)
            elif parents:
                self._git("read-tree", *parents, environment=index)
            blobs = {
                name: self._git("hash-object", "-w", "--stdin", stdin=data) for name, data in files.items()
            }
            entries = "".join(f"100644 {blob.strip()}\t{name}\0" for name, blob in blobs.items())
            self._git("update-index", "-z", "--index-info", stdin=entries.encode(), environment=index)
            self._refuse_conflicts(self._git("ls-files", "-z", "--unmerged", environment=index))
            tree = self._git("write-tree", environment=index).strip()
        by = {
            f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what, text in self._who().items()
        }
        above = [argument for parent in parents for argument in ("-p", parent)]
        return self._git("commit-tree", tree, *above, "-m", "Add runs to the history", environment=by).strip()

    def _who(self) -> dict[str, str]:
        """Return the name of the user for git; git itself would take the name of the machine."""
        name, email = self._config("user.name"), self._config("user.email")
        return {"NAME": name or _NAME, "EMAIL": email or f"{_NAME}@localhost"}

    def _tips(self) -> list[str]:
        """Return the newest commits of the branch, the remote's first, without one that another contains."""
        tips = list(dict.fromkeys(filter(None, map(self._tip, (self._tracking, self._ref)))))
        if len(tips) < 2:
            return tips
        return [tip for tip, other in (tips, tips[::-1]) if not self._contains(other, tip)]

    def _contains(self, commit: str, older: str) -> bool:
        try:
            self._git("merge-base", "--is-ancestor", older, commit)
        except GitError:
            return False
        return True

    def _tip(self, ref: str) -> str:
        try:
            return self._git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").strip()
        except GitError:
            return ""

    def _base(self, tips: list[str]) -> str:
        """Return the commit from which the tips have grown; an empty tree if they have none in common."""
        try:
            return self._git("merge-base", *tips).strip()
        except GitError:
            return self._git("hash-object", "-w", "-t", "tree", "--stdin").strip()

    def _read(self, tips: list[str]) -> dict[str, Lines]:
        """Read the files of several commits, and put the lines of each name together."""
        found: dict[str, Lines] = {}
        for tip in tips:
            for name in self._git("ls-tree", "-r", "-z", "--full-tree", "--name-only", tip).split("\0"):
                slug, _, suite = name.removesuffix(_SUFFIX).partition("/")
                if not name.endswith(_SUFFIX) or not suite or "/" in suite:
                    continue
                data = run_git(self._folder, "cat-file", "blob", f"{tip}:{name}")
                lines = decode_file(data, self._of(name), (slug, suite))
                if (known := found.get(name)) is not None:
                    lines = lines._replace(
                        lines=union(known.lines, lines.lines), torn=known.torn or lines.torn
                    )
                found[name] = lines
        return found

    def _of(self, name: str) -> str:
        return f"{self._name}:{name}"

    def _refuse_conflicts(self, unmerged: str) -> None:
        names = sorted({entry.partition("\t")[2] for entry in unmerged.split("\0") if entry})
        if names:
            raise GpuperfError(
                f"{self.shown} here and at {self._remote} have different changes of {', '.join(names[:3])}",
                expected="changes of other files on one side only",
                next_step=f"git switch {self._name} && git merge {self._remote}/{self._name}",
            )

    def _refuse_checked_out(self) -> None:
        listed = self._git("worktree", "list", "--porcelain").splitlines()
        if f"branch {self._ref}" in listed:
            raise GpuperfError(
                f"{self.shown} is checked out: its files would seem to change under the work tree",
                next_step="git switch to another branch, or name a folder as --store",
            )

    def _config(self, name: str) -> str:
        try:
            return self._git("config", "--get", name).strip()
        except GitError:
            return ""

    def _git(self, *arguments: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> str:
        return os.fsdecode(run_git(self._folder, *arguments, stdin=stdin, environment=environment))
