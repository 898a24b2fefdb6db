"""The errors that this package raises on purpose, and short forms of others."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


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


class NoCompilerError(GpuperfError):
    """This machine has no compiler; the kernel and the test are not at fault."""


LONGEST_REASON = 200
"""Maximum number of characters of an exception's text in a line."""


def show_repr(value: object, longest: int = 40) -> str:
    """Return the `repr` of any value for a message: one line, and short; its type if it has none."""
    return _one_line(repr, value, longest) or f"<{type(value).__name__}>"


def show_exception(error: BaseException) -> str:
    """Return type and text of an exception on one short line."""
    text = _one_line(str, error, LONGEST_REASON)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def without_control(text: str, but: str = "") -> str:
    """Replace characters that cannot be printed by Unicode's sign for that, except those in `but`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in but else "\ufffd" for char in text)


def _one_line(form: Callable[[object], str], value: object, longest: int) -> str:
    try:
        text = form(value).partition("\n")[0]
    except Exception:  # a stranger's method, or an integer with too many digits
        return ""
    text = without_control(text)
    return text if len(text) <= longest else f"{text[:longest]}…"
