"""The file of a page: it is written over an earlier report, and over no other file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.writing import is_plain, write_files
from pytest_gpuperf.report.html.page import GENERATOR, page_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gpuperf.report.html.section import Section

HEAD_BYTES = 1000
"""Length of the beginning of a file that has the tag of its writer."""


def write_page(path: Path, sections: Sequence[Section]) -> None:
    """Write a page; missing folders are made.

    Args:
        path: The file.
        sections: One for each run; at least one.

    Raises:
        GpuperfError: As `refuse_other_file`.
        OSError: The file cannot be written.
    """
    refuse_other_file(path)
    write_files({path: page_pieces(sections)})


def refuse_other_file(path: Path) -> None:
    """Refuse to write a report over a file that is not one.

    Raises:
        GpuperfError: The file exists, is not empty and is not a report of this tool.
        OSError: The file cannot be read.
    """
    if not path.is_file() or not is_plain(path):
        return
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    if head and GENERATOR.encode() not in head:
        raise GpuperfError(
            f"{show_path(path)} exists and is not a report of pytest-gpuperf",
            expected="a new name, or that of an earlier report",
            next_step="name another file, or move this one away",
        )
