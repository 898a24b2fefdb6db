"""Files that this tool has written: they are written again, and no other file is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.writing import is_plain

if TYPE_CHECKING:
    from pathlib import Path

HEAD_BYTES = 1000
"""Length of the beginning of a file that has the tag of its writer."""


def has_tag(path: Path, tag: str) -> bool:
    """Return True if the beginning of a file has the tag of its writer.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as stream:
        return tag.encode() in stream.read(HEAD_BYTES)


def refuse_other_file(path: Path, tag: str, kind: str) -> None:
    """Refuse to write over a file of somebody else; an empty one, a device and a pipe are nobody's.

    Args:
        path: The file to write; need not exist.
        tag: Text at the beginning of the files of this kind.
        kind: Such as `report`, for the message.

    Raises:
        GpuperfError: The file exists, is not empty and has no such tag.
        OSError: The file cannot be read.
    """
    if path.is_file() and is_plain(path) and path.stat().st_size and not has_tag(path, tag):
        raise GpuperfError(
            f"{show_path(path)} exists and is not a {kind} of pytest-gpuperf",
            expected=f"a new name, or that of an earlier {kind}",
            next_step="name another file, or move this one away",
        )
