"""The errors that this package raises on purpose, and a guard around those that it does not."""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator


class GpuperfError(Exception):
    """An error that the user can fix; it states the finding, the expectation and the next step.

    Args:
        found: A sentence without a final stop.
        expected: The expected state, a noun phrase.
        next_step: A command to type, or a change to make.
    """

    def __init__(self, found: str, *, expected: str = "", next_step: str = "") -> None:
        self.found = found
        self.expected = expected
        self.next_step = next_step
        parts = [found]
        if expected:
            parts.append(f"expected {expected}")
        if next_step:
            parts.append(next_step)
        super().__init__("; ".join(parts))


_NEXT_STEPS = {
    errno.EACCES: "type `ls -ld` to see who may use it",
    errno.EPERM: "type `ls -ld` to see who may use it",
    errno.EROFS: "name a file or folder on a disk that can be written",
    errno.ENOSPC: "make room on its disk: type `df -h`",
    errno.EDQUOT: "make room on its disk: type `df -h`",
    errno.EEXIST: "move the file away, or name another folder",
    errno.ENOTDIR: "move the file away, or name another folder",
    errno.EISDIR: "move the folder away, or name another file",
    errno.ELOOP: "remove the link",
}


def of_system(error: OSError) -> GpuperfError:
    """Turn an error of the operating system into one with a next step."""
    name = error.filename2 if error.filename2 is not None else error.filename
    shown = "" if name is None else os.fsdecode(name) if isinstance(name, (str, bytes)) else str(name)
    while error.errno in (errno.ENOTDIR, errno.EEXIST) and shown.strip("/") and not os.path.lexists(shown):
        shown = os.path.dirname(shown)  # noqa: PTH120  # the file that is in the way
    why = error.strerror or str(error)
    return GpuperfError(f"{shown}: {why}" if shown else why, next_step=_NEXT_STEPS.get(error.errno or 0, ""))


class NoGpuError(GpuperfError):
    """Neither a GPU nor a recording is available; the test did nothing wrong."""


ISSUES = "https://github.com/pytest-gpuperf/pytest-gpuperf/issues"
LONGEST_REASON = 200
"""Maximum number of characters of an exception's text in a line."""
CALLS = "pytest_gpuperf.records.call"
"""Module that calls the callable under test: an error from below it is not this plugin's."""
_PACKAGE = Path(__file__).parent

PluginPart: TypeAlias = Literal[
    "annotations",
    "baseline",
    "clock reading",
    "code identity",
    "counter cache",
    "counters",
    "diagnosis",
    "HTML report",
    "isolation",
    "judging",
    "JUnit properties",
    "lock",
    "marker",
    "Markdown summary",
    "notices",
    "options",
    "passes",
    "progress",
    "pruning",
    "pytest-benchmark timer",
    "report",
    "run file",
    "sanitizer",
    "seeding",
    "settling",
    "start",
    "trace",
    "verdicts",
]
"""Parts of the plugin whose own errors never end a run."""
_REFUSING: Container[PluginPart] = (
    "baseline",
    "counter cache",
    "counters",
    "judging",
    "marker",
    "options",
    "passes",
    "pytest-benchmark timer",
    "run file",
    "sanitizer",
    "settling",
    "start",
    "trace",
)
"""Parts that raise `GpuperfError` for users to fix something; from another part it is unexpected too."""


@contextmanager
def guarded(part: PluginPart, tell: Callable[[str], object]) -> Iterator[None]:
    """Turn an error of this plugin into one line, and go on.

    Errors of others pass: those that the user can fix, those of the callable under test and of its kernels,
    and requests to end pytest.

    Args:
        part: The part that may fail.
        tell: Takes the line.
    """
    try:
        yield
    except Exception as error:
        if (isinstance(error, GpuperfError) and part in _REFUSING) or not _is_own(error):
            raise
        tell(_failure_line(part, error))


def show_repr(value: object, longest: int = 40) -> str:
    """Return the `repr` of any value for a message: one line, and short; its type if it has none."""
    return _one_line(repr, value, longest) or f"<{type(value).__name__}>"


def _one_line(form: Callable[[object], str], value: object, longest: int) -> str:
    try:
        text = form(value).partition("\n")[0]
    except Exception:  # a stranger's method, or an integer with too many digits
        return ""
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return text if len(text) <= longest else f"{text[:longest]}…"


def _is_own(error: Exception) -> bool:
    import pytest

    if isinstance(error, (pytest.UsageError, pytest.exit.Exception)):
        return False
    # torch and Triton report a broken kernel wherever the host waits next.
    if re.search(r"CUDA error|\[CUDA\]", _one_line(str, error, LONGEST_REASON)):
        return False
    modules = (frame.f_globals.get("__name__") for frame, _ in walk_tb(error.__traceback__))
    return CALLS not in modules


def _failure_line(part: PluginPart, error: Exception) -> str:
    if isinstance(error, OSError):
        return f"error in the {part}: {of_system(error)}"
    places = ((Path(frame.f_code.co_filename), line) for frame, line in walk_tb(error.__traceback__))
    own = [
        f" ({path.relative_to(_PACKAGE).as_posix()}:{line})"
        for path, line in places
        if _PACKAGE in path.parents and path != Path(__file__)
    ]
    text = _one_line(str, error, LONGEST_REASON)
    reason = ": ".join(filter(None, (type(error).__name__, text))) + (own[-1] if own else "")
    return f"error in the {part}: {reason}; a fault of pytest-gpuperf: please report this line at {ISSUES}"
