"""JSON files, read into typed records with one clear error each."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

import msgspec

from pytest_gpuperf.errors import GpuperfError

T = TypeVar("T")


class _Versioned(msgspec.Struct):
    schema: int


def decode_versioned(data: bytes, decoder: msgspec.json.Decoder[T], *, schema: int, shown: str) -> T:
    """Decode one file that carries a `schema` number.

    Args:
        data: The file's bytes.
        decoder: The decoder of version `schema`.
        schema: The newest version that this package reads.
        shown: Name of the file in an error.

    Raises:
        GpuperfError: Broken JSON (with line and column), a newer schema, or a wrong type (with its path).
    """
    try:
        version = msgspec.json.decode(data, type=_Versioned).schema
        if version > schema:
            raise GpuperfError(
                f"{shown} was written by a newer pytest-gpuperf (schema {version})",
                expected=f"schema {schema} or older",
                next_step="upgrade: pip install --upgrade pytest-gpuperf",
            )
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise GpuperfError(
            f"{shown} does not have the expected form: {error}",
            next_step="fix it by hand, or restore it with git",
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GpuperfError(
            f"{shown} is not valid JSON: {_where(data, error)}",
            next_step="fix it by hand, or restore it with git (a merge conflict leaves such a file)",
        ) from None


def _where(data: bytes, error: Exception) -> str:
    try:
        json.loads(data)
    except json.JSONDecodeError as found:
        return f"{found.msg} at line {found.lineno}, column {found.colno}"
    except (UnicodeDecodeError, RecursionError):
        pass
    return str(error)


def find_files(folder: Path, pattern: str) -> list[Path]:
    """Return the paths below a folder that match, sorted; none if the folder does not exist.

    `Path.glob` also finds hidden files, and ignores folders that cannot be read.

    Args:
        folder: The top.
        pattern: Names separated by slashes, with `*` as in a shell.

    Raises:
        OSError: The folder, or one in it, is not a folder or cannot be read.
    """
    first, _, rest = pattern.partition("/")
    try:
        paths = sorted(
            path for path in folder.iterdir() if path.name[0] != "." and fnmatchcase(path.name, first)
        )
    except FileNotFoundError:
        return []
    if not rest:
        return paths
    return [path for below in paths if below.is_dir() for path in find_files(below, rest)]


def show_path(path: Path) -> str:
    """Return the path as people type it: relative to the working directory if it is below it."""
    # The working directory may be gone.
    with suppress(ValueError, OSError):
        path = Path(os.path.realpath(path)).relative_to(Path.cwd())
    return path.as_posix()
