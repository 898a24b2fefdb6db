"""The git repository of the tests, and its commits."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pytest_gpuperf.errors import GpuperfError

_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
"""Variables that git sets for hooks; with them a new worktree would write into the hook's index."""


ERRORS_SHOWN = 3
"""Maximum number of git's errors in one of ours; the first ones have the cause."""


class GitError(Exception):
    """An error of git: its message, on one line."""


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
        environment = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
        try:
            done = subprocess.run(  # noqa: S603
                ["git", "-C", str(self.root), "-c", f"core.hooksPath={os.devnull}", *arguments],  # noqa: S607
                env={**environment, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                # This process handles the signals of the terminal.
                start_new_session=True,
                check=False,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL character
            raise GitError(f"git cannot be run: {error}") from None
        if done.returncode:
            raise GitError(_error_in(os.fsdecode(done.stderr)) or f"exit status {done.returncode}")
        return os.fsdecode(done.stdout)

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


def _error_in(stderr: str) -> str:
    """Return the errors among git's lines of progress, warnings and hints; its last line if it names none."""
    lines = [line.strip() for line in stderr.replace("\r", "\n").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("error: ", "fatal: "))] or lines[-1:]
    shown = [line.partition(": ")[2] if line[:7] in ("error: ", "fatal: ") else line for line in errors]
    return "; ".join(dict.fromkeys(shown[:ERRORS_SHOWN]))
