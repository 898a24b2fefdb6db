"""Commands of git."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
"""Variables that git sets for hooks; with them a new worktree would write into the hook's index."""
ERRORS_SHOWN = 3
"""Maximum number of git's errors in one of ours; the first ones have the cause."""


class GitError(Exception):
    """An error of git: its message, on one line."""


def run_git(
    folder: Path, *arguments: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None
) -> bytes:
    """Run a git command without hooks or questions, and return its output.

    Args:
        folder: The folder to run it in.
        arguments: The command.
        stdin: Standard input.
        environment: Variables to set.

    Raises:
        GitError: The command failed, or git is missing.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "-C", str(folder), "-c", f"core.hooksPath={os.devnull}", *arguments],  # noqa: S607
            env={**kept, **(environment or {}), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
            input=stdin,
            capture_output=True,
            # This process handles the signals of the terminal.
            start_new_session=True,
            check=False,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL character
        raise GitError(f"git cannot be run: {error}") from None
    if done.returncode:
        raise GitError(_error_in(os.fsdecode(done.stderr)) or f"exit status {done.returncode}")
    return done.stdout


def _error_in(stderr: str) -> str:
    """Return the errors among git's lines of progress, warnings and hints; its last line if it names none."""
    lines = [line.strip() for line in stderr.replace("\r", "\n").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("error: ", "fatal: ", "! ["))] or lines[-1:]
    shown = [line.partition(": ")[2] if line[:7] in ("error: ", "fatal: ") else line for line in errors]
    return "; ".join(dict.fromkeys(shown[:ERRORS_SHOWN]))
