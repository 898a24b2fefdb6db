"""Files, written completely or not at all; links, devices and pipes are written through."""

from __future__ import annotations

import errno
import os
import re
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pytest_gpuperf.processes.signals import signals_held_off

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Content: TypeAlias = bytes | Iterable[bytes]

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
            _refuse_protected(path)
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


def _refuse_protected(target: Path) -> None:
    # To replace a file takes no permission to write it.
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))


def _mode(path: Path) -> int:
    # mkstemp makes files that only their owner can read; a replaced file keeps its mode.
    with suppress(FileNotFoundError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
