"""JSON files, read into typed records with one clear error each, and written completely or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.processes.signals import signals_held_off

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def show_path(path: Path) -> str:
    """Return the path as people type it: relative to the working directory if it is below it."""
    with suppress(ValueError):
        path = path.resolve().relative_to(Path.cwd())
    return path.as_posix()


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write several files so that each is either complete or unchanged, whatever happens.

    Every file is first written and synced next to its target. Then all targets are replaced while Ctrl-C is
    held off. Missing folders are made.

    Raises:
        OSError: As the file system says; no target has changed if a temporary file could not be written.
    """
    written: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
            written[Path(name)] = path
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(_mode(path))
        with signals_held_off():
            for temporary, path in written.items():
                temporary.replace(path)
    finally:
        for temporary in written:
            temporary.unlink(missing_ok=True)


def _mode(path: Path) -> int:
    # mkstemp makes files that only their owner can read; a replaced file keeps its mode.
    with suppress(FileNotFoundError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
