"""A picture as a file of its own. The same picture makes the same text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.page.svg_renderer import svg
from pytest_gpuperf.report.overwrite_check import COMMENT

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.features.page.picture import Picture


def draw(picture: Picture, output: Path) -> bytes:
    """Draw a picture for a file, with the mark by which `overwrite_check` knows it.

    Raises:
        GpuperfError: The name of the file does not end in `.svg`.
    """
    if output.suffix.lower() != ".svg":
        raise GpuperfError(
            f"a picture cannot be written as {output.name!r}", expected="a name that ends in .svg"
        )
    return f"{COMMENT}picture -->\n{svg(picture)}\n".encode()
