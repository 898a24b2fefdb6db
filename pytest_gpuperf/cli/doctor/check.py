"""One line of `gpuperf doctor`: what was found, whether that is well, and what to type where it is not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

SYSTEM_FOLDERS = ("/usr", "/opt", "/bin", "/nix", "/snap")
"""Paths below these name no person."""


class State(str, Enum):
    """How it is with one thing, worst first."""

    PROBLEM = "problem"
    """Something that people expect of a run will not work."""
    WARNING = "warning"
    """It works, and numbers or convenience suffer."""
    OK = "ok"
    ABSENT = "absent"
    """Not there, not needed, or not to be known here."""


@dataclass(frozen=True)
class Finding:
    """What a check has found."""

    state: State
    text: str
    fix: str = ""
    """What to type or do, where something can be done."""


@dataclass(frozen=True)
class Check:
    """A finding with the name of its check: what people read, and what `--json` writes."""

    theme: str
    name: str
    """Stable: scripts choose by it."""
    state: State
    text: str
    fix: str


def ok(text: str) -> Finding:
    """All is well."""
    return Finding(State.OK, text)


def warning(text: str, fix: str = "") -> Finding:
    """It works, but."""
    return Finding(State.WARNING, text, fix)


def problem(text: str, fix: str = "") -> Finding:
    """It will not work."""
    return Finding(State.PROBLEM, text, fix)


def absent(text: str, fix: str = "") -> Finding:
    """There is nothing to be said of it here."""
    return Finding(State.ABSENT, text, fix)


def shown(path: Path) -> str:
    """A path without anybody's name in it: below `~`, in a folder of the system, or its last part."""
    text = path.as_posix()
    if (own := home()) and path.is_relative_to(own):
        return f"~/{path.relative_to(own).as_posix()}"
    return text if text.startswith(tuple(f"{folder}/" for folder in SYSTEM_FOLDERS)) else f"…/{path.name}"


def home() -> Path | None:
    """The user's own folder; None where there is none, as for a number without a name in a container."""
    try:
        found = Path.home()
    except RuntimeError:
        return None
    return None if found == Path("/") else found


def without_paths(text: str) -> str:
    """A message of somebody else's code, on one line, with `…` for the folders of absolute paths."""
    return re.sub(r"(?<![\w.~…])/(?:[^\s/'\"]+/)+", "…/", text.strip().partition("\n")[0])
