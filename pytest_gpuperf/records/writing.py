"""Files, written completely or not at all; links, devices and pipes stay what they are."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

from pytest_gpuperf.processes.signals import signals_held_off

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Content: TypeAlias = bytes | Iterable[bytes]

_LEFTOVER = re.compile(r"\..+\.json(\.gz)?\.[a-z0-9_]{8}\.tmp")


def write_files(files: Mapping[Path, Content]) -> None:
    """Write several files so that each plain one is either complete or unchanged, whatever happens.

    Every plain file is first written and synced next to its target. Then all targets are replaced while
    Ctrl-C is held off. Missing folders are made. A symbolic link stays, and its target is written. A device,
    a pipe and a file that is open as standard output get the content at once.

    Raises:
        OSError: As the file system says; no plain file has changed if a temporary file could not be written.
    """
    targets = {path: Path(os.path.realpath(path)) for path in files if is_plain(path)}
    written: dict[Path, Path] = {}
    try:
        for path, content in files.items():
            pieces = [content] if isinstance(content, bytes) else content
            if path not in targets:
                with named(path), _stream(path) as stream:
                    stream.writelines(pieces)
                continue
            target = targets[path]
            target.parent.mkdir(parents=True, exist_ok=True)
            _refuse_protected(target)
            # A name may have 255 bytes.
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.", suffix=".tmp")
            written[Path(name)] = target
            with named(target), os.fdopen(handle, "wb") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(_mode(target))
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
    """Return False for a device, a pipe and a file that is open as standard output or error."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return True
    return stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and _standard(status) is None)


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


def _standard(status: os.stat_result) -> int | None:
    """Return 1 or 2 for the file of this process's standard output or error; None for other files."""
    for handle in (1, 2):
        with suppress(OSError):
            if os.path.samestat(status, os.fstat(handle)):
                return handle
    return None


def _stream(path: Path) -> IO[bytes]:
    # Opened by name, a log would be truncated, a socket refused, and another user's terminal too.
    handle = _standard(path.stat())
    if handle is None:
        return path.open("wb")
    sys.stdout.flush()
    return os.fdopen(os.dup(handle), "wb")


def _mode(path: Path) -> int:
    # mkstemp makes files that only their owner can read; a replaced file keeps its mode.
    with suppress(FileNotFoundError):
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
