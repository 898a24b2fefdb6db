"""A picture as a file: SVG, or PNG and PDF of it by vl-convert. The same picture makes the same image."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from pytest_gpuperf._version import requirement
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.page.svg import svg
from pytest_gpuperf.report.own_files import COMMENT

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.features.page.picture import Picture

_SCALE = 2.5
"""Pixels of a PNG for one of the SVG."""


def draw(picture: Picture, output: Path) -> bytes:
    """Draw a picture in the form of the file's name, with the mark by which `own_files` knows it.

    Raises:
        GpuperfError: The name has another ending, or vl-convert is not installed.
    """
    drawn = f"{COMMENT}picture -->\n{svg(picture)}\n"
    form = output.suffix.lower()
    if form == ".svg":
        return drawn.encode()
    if form not in (".png", ".pdf"):
        raise GpuperfError(
            f"a picture cannot be written as {output.name!r}",
            expected="a name that ends in .svg, .png or .pdf",
        )
    try:
        import vl_convert
    except ImportError:
        raise GpuperfError(
            f"a picture as {form} needs vl-convert, which is not installed",
            next_step=f"pip install '{requirement('plot')}', or name a file .svg",
        ) from None
    if form == ".pdf":
        return bytes(vl_convert.svg_to_pdf(drawn)) + b"% /Creator (pytest-gpuperf)\n"
    image = bytes(vl_convert.svg_to_png(drawn, scale=_SCALE))
    writer = b"tEXtSoftware\0pytest-gpuperf"
    chunk = struct.pack(">I", len(writer) - 4) + writer + struct.pack(">I", zlib.crc32(writer))
    return image[:-12] + chunk + image[-12:]  # before the last chunk
