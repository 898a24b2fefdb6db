"""The check before a file that a user named is written: files of others stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.files import is_plain, show_path

if TYPE_CHECKING:
    from pathlib import Path

HEAD_BYTES = 1000
"""Length of the beginning of a file that may have a mark."""
GENERATOR = '<meta name="generator" content="pytest-gpuperf'
"""Mark of a page."""
COMMENT = "<!-- gpuperf: "
"""Mark of a comment on a pull request."""
MARKS = (
    *(GENERATOR, COMMENT),
    # At the beginning, unlike in runs and baselines, which are not made again: CSV, JSON, verdicts.
    *("\0nodeid,label,kernel,launch,metric,", '\0[\n{"nodeid":', '\0{"schema":1,"gpuperf":'),
)
"""Texts of which each file that this tool writes has one at its beginning."""


def refuse_other_file(path: Path, next_step: str = "name another file") -> None:
    """Refuse to replace a plain file without a mark of this tool; an empty one is nobody's.

    Args:
        path: The file to write; need not exist.
        next_step: A way to write nevertheless.

    Raises:
        GpuperfError: It is such a file.
        OSError: It cannot be read.
    """
    if not (path.is_file() and is_plain(path) and path.stat().st_size):
        return
    with path.open("rb") as stream:
        head = b"\0" + stream.read(HEAD_BYTES)
    if not any(mark.encode() in head for mark in MARKS):
        raise GpuperfError(
            f"{show_path(path)} exists and is not an output of pytest-gpuperf",
            expected="a new name, or that of an earlier page, table, picture or file of verdicts",
            next_step=next_step,
        )
