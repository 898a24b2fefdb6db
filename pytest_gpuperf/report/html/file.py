"""The file of a page: it is written over an earlier report, and over no other file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.records.writing import write_files
from pytest_gpuperf.report.html.page import page_pieces
from pytest_gpuperf.report.own_files import REPORT, refuse_other_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gpuperf.report.html.section import Section


def write_page(path: Path, sections: Sequence[Section]) -> None:
    """Write a page; missing folders are made.

    Args:
        path: The file.
        sections: One for each run; at least one.

    Raises:
        GpuperfError: The file exists, is not empty and is not a report of this tool.
        OSError: The file cannot be written.
    """
    refuse_other_file(path, REPORT)
    write_files({path: page_pieces(sections)})
