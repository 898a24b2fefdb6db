"""Files that may be gzipped, unpacked up to a limit: a small gzip file can hold terabytes."""

from __future__ import annotations

import codecs
import gzip
import zlib
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.file_paths import show_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_BYTES = 2**30
"""Largest unpacked size."""

_MAGIC = b"\x1f\x8b"
_CHUNK = 2**20


def read_unpacked(path: Path, expected: str) -> bytes:
    """Read a file, gzipped or not.

    Args:
        path: The file.
        expected: The right content, for an error.

    Raises:
        GpuperfError: The file cannot be read, is damaged, or unpacks to too much.
    """
    return b"".join(unpacked(path, expected))


def as_utf8(data: bytes) -> bytes:
    """Return a text without a byte-order mark, in UTF-8 if the mark tells UTF-16."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace").encode()
    return data.removeprefix(codecs.BOM_UTF8)


def unpacked(path: Path, expected: str) -> Iterator[bytes]:
    """Yield the content of a file, gzipped or not, in pieces.

    Raises:
        GpuperfError: As `read_unpacked`.
    """
    try:
        with path.open("rb") as file:
            if file.peek(2)[:2] != _MAGIC:
                yield from iter(lambda: file.read(_CHUNK), b"")
                return
            left = MOST_BYTES
            with gzip.open(file) as content:
                for chunk in iter(lambda: content.read(_CHUNK), b""):
                    left -= len(chunk)
                    if left < 0:
                        raise GpuperfError(
                            f"{show_path(path)} unpacks to more than {MOST_BYTES // 2**20} MiB",
                            expected=expected,
                            next_step="if you trust it, unpack it with gunzip and name the unpacked file",
                        )
                    yield chunk
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise GpuperfError(f"{show_path(path)} cannot be read: {reason}", expected=expected) from None
