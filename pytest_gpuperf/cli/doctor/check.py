"""One line of `gpuperf doctor`: the result, its state, and the command that fixes a problem."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

SYSTEM_FOLDERS = ("/usr", "/opt", "/bin", "/nix", "/snap")
"""Folders whose paths never contain a person's name."""


class State(str, Enum):
    """The state of one result, worst first."""

    PROBLEM = "problem"
    """Part of a run will not work."""
    WARNING = "warning"
    """It works, but numbers or convenience suffer."""
    OK = "ok"
    ABSENT = "absent"
    """Not there, not needed, or unknown."""


@dataclass(frozen=True)
class CheckResult:
    """The result of a check."""

    state: State
    text: str
    fix: str = ""
    """The command or action that fixes it; empty if there is none."""


@dataclass(frozen=True)
class Check:
    """A result with the name of its check, as people read it and `--json` writes it."""

    theme: str
    name: str
    """Stable: scripts choose by it."""
    state: State
    text: str
    fix: str


def ok(text: str) -> CheckResult:
    """Return a result without a problem."""
    return CheckResult(State.OK, text)


def warning(text: str, fix: str = "") -> CheckResult:
    """Return a result that needs attention."""
    return CheckResult(State.WARNING, text, fix)


def problem(text: str, fix: str = "") -> CheckResult:
    """Return a result that stops part of a run."""
    return CheckResult(State.PROBLEM, text, fix)


def absent(text: str, fix: str = "") -> CheckResult:
    """Return a result about something that is not there or not known."""
    return CheckResult(State.ABSENT, text, fix)


def shown(path: Path) -> str:
    """Show a path without a person's name: below `~`, in a system folder, or its last part."""
    text = path.as_posix()
    if (own := home()) and path.is_relative_to(own):
        return f"~/{path.relative_to(own).as_posix()}"
    return text if text.startswith(tuple(f"{folder}/" for folder in SYSTEM_FOLDERS)) else f"…/{path.name}"


def home() -> Path | None:
    """Return the user's folder; None without one, such as for a user without a name in a container."""
    try:
        found = Path.home()
    except RuntimeError:
        return None
    return None if found == Path("/") else found


def without_paths(text: str) -> str:
    """Shorten a foreign message to one line, with `…` for the folders of absolute paths."""
    return re.sub(r"(?<![\w.~…])/(?:[^\s/'\"]+/)+", "…/", text.strip().partition("\n")[0])
