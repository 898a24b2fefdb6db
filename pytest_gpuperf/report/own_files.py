"""Files that this tool has written: they are written again, and no other file is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.writing import is_plain

if TYPE_CHECKING:
    from pathlib import Path

HEAD_BYTES = 1000
"""Length of the beginning of a file that may have the tag of its writer."""
TAIL_BYTES = 2**14
"""Length of the end that may have it: PDF and Parquet tell their writer there."""


class Kind(NamedTuple):
    """Kind of file that a command writes."""

    name: str
    """Such as `report`, for messages."""
    tags: tuple[str, ...]
    """Texts of which each such file has one at its beginning or end; none if other tools write such files,
    so that no file is replaced."""


REPORT = Kind("report", ('<meta name="generator" content="pytest-gpuperf',))
DASHBOARD = Kind("dashboard", ('<meta name="generator" content="pytest-gpuperf history',))
COMMENT = Kind("comment", ("<!-- gpuperf: ",))
VERDICTS = Kind("file of verdicts", ('"gpuperf":',))
PICTURE = Kind(
    "picture",
    ("<dc:title>pytest-gpuperf</dc:title>", "Software\0pytest-gpuperf", "/Creator (pytest-gpuperf)"),
)
PARQUET_WRITER = "written by pytest-gpuperf"
TABLE = Kind(
    "table",
    ("nodeid,label,kernel,launch,metric,", '[\n{"nodeid":', PARQUET_WRITER, '"compute_capability": "'),
)
"""CSV, JSON and Parquet, and a file of pytest-benchmark with the GPU in `machine_info`."""
TRACE = Kind("trace", ())


def is_own(path: Path, kind: Kind) -> bool:
    """Return True if a file has a tag of its kind.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as stream:
        ends = stream.read(HEAD_BYTES)
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - TAIL_BYTES))
        ends += stream.read()
    return any(tag.encode() in ends for tag in kind.tags)


def refuse_other_file(path: Path, kind: Kind) -> None:
    """Refuse to write over a file of somebody else; an empty one, a device and a pipe are nobody's.

    Args:
        path: The file to write; need not exist.
        kind: The kind to write.

    Raises:
        GpuperfError: The file exists, is not empty and has no tag of its kind.
        OSError: The file cannot be read.
    """
    if not (path.is_file() and is_plain(path) and path.stat().st_size) or is_own(path, kind):
        return
    raise GpuperfError(
        f"{show_path(path)} exists" + (f" and is not a {kind.name} of pytest-gpuperf" if kind.tags else ""),
        expected=f"a new name, or that of an earlier {kind.name}" if kind.tags else "a new name",
        next_step="name another file, or move this one away",
    )
