"""Files: find them, show their paths, read gzipped ones, and write them completely or not at all.

Links, devices and pipes are written through. Unpacked is up to a limit: a small gzip file can hold terabytes.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
import shlex
import tempfile
import time
import zlib
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.processes.signals import signals_held_off

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Content: TypeAlias = bytes | Iterable[bytes]


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


def relative_path(path: Path) -> str:
    """Return the path relative to the working directory if it is below it."""
    # The working directory may be gone.
    with suppress(ValueError, OSError):
        path = Path(os.path.realpath(path)).relative_to(Path.cwd())
    return path.as_posix()


def show_path(path: Path) -> str:
    """Return the path as people type it in a shell."""
    return shlex.quote(relative_path(path))


MOST_BYTES = 2**30
"""Largest unpacked size."""
HEAD_BYTES = 2**16
"""Size of a piece: a run has its date in the first one, and a trace of many GPUs its first event."""


def read_unpacked(path: Path, expected: str) -> bytes:
    """Read a file, gzipped or not.

    Args:
        path: The file.
        expected: The right content, for an error.

    Raises:
        GpuperfError: The file cannot be read, is damaged, or unpacks to too much.
    """
    return b"".join(unpacked(path, expected))


def unpacked(path: Path, expected: str) -> Iterator[bytes]:
    """Yield the content of a file, gzipped or not, in pieces.

    Raises:
        GpuperfError: As `read_unpacked`.
    """
    try:
        with path.open("rb") as file:
            if file.peek(2)[:2] != b"\x1f\x8b":
                yield from iter(lambda: file.read(HEAD_BYTES), b"")
                return
            left = MOST_BYTES
            with gzip.open(file) as content:
                for chunk in iter(lambda: content.read(HEAD_BYTES), b""):
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


_LEFTOVER = re.compile(r"\..+\.json(\.gz)?\.[a-z0-9_]{8}\.tmp")


def write_files(files: Mapping[Path, Content]) -> None:
    """Write several files so that each plain one is either complete or unchanged, whatever happens.

    Every plain file is first written and synced next to its target. Then all targets are replaced while
    Ctrl-C is held off. Missing folders are made. A symbolic link, a device and a pipe stay, and get the
    content at once.

    Raises:
        OSError: As the file system says; no plain file has changed if a temporary file could not be written.
    """
    targets = list(filter(is_plain, files))
    written: dict[Path, Path] = {}
    try:
        for path, content in files.items():
            pieces = [content] if isinstance(content, bytes) else content
            if path not in targets:
                with named(path), path.open("wb") as stream:
                    stream.writelines(pieces)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not os.access(path, os.W_OK):  # to replace it takes no permission
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            # A name may have 255 bytes.
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".tmp")
            written[Path(name)] = path
            with named(path), os.fdopen(handle, "wb") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(_mode(path))
        with signals_held_off():
            for temporary, target in written.items():
                temporary.replace(target)
    finally:
        for temporary in written:
            temporary.unlink(missing_ok=True)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Name a file in errors of the system, which forgets it once the file is open."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def is_plain(path: Path) -> bool:
    """Return False for a symbolic link, a device and a pipe."""
    return not path.is_symlink() and (path.is_file() or path.is_dir() or not path.exists())


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of killed processes, an hour old, from a folder that only this tool writes."""
    with suppress(OSError):
        for path in folder.glob(".*.json*.tmp"):
            if _LEFTOVER.fullmatch(path.name) and path.stat().st_mtime < time.time() - 3600:
                path.unlink()


def _mode(path: Path) -> int:
    # mkstemp makes files that only their owner can read; a replaced file keeps its mode.
    with suppress(FileNotFoundError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
