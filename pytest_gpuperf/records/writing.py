"""Files, written completely or not at all; links, devices and pipes are written through."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pytest_gpuperf.processes.signals import signals_held_off

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Content: TypeAlias = bytes | Iterable[bytes]


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
    with ExitStack() as locks:
        for folder in dict.fromkeys(target.parent for target in targets):
            folder.mkdir(parents=True, exist_ok=True)
            names = [target.name for target in targets if target.parent == folder]
            locks.enter_context(_writing_in(folder, "|".join(map(_leftover_of, names))))
        try:
            for path, content in files.items():
                pieces = [content] if isinstance(content, bytes) else content
                if path not in targets:
                    with named(path), path.open("wb") as stream:
                        stream.writelines(pieces)
                    continue
                _refuse_protected(path)
                handle, name = tempfile.mkstemp(dir=path.parent, prefix=_prefix(path.name), suffix=".tmp")
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
    """Remove the temporary files of killed processes from a folder that only this tool writes."""
    with suppress(OSError), _writing_in(folder, r"\..+\.json(\.gz)?\.[a-z0-9_]{8}\.tmp"):
        pass


@contextmanager
def _writing_in(folder: Path, leftovers: str) -> Iterator[None]:
    """Lock a folder as one that a process writes; before that, if no other does, remove leftovers.

    Args:
        folder: The folder, which exists.
        leftovers: A regex for the names of temporary files.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # a folder to write into, but not to list
        yield
        return
    try:
        with suppress(OSError):  # another process writes, or a network file system has no locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for entry in list(os.scandir(folder)):
                if re.fullmatch(leftovers, entry.name) and entry.is_file(follow_symlinks=False):
                    Path(entry.path).unlink()
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def _leftover_of(name: str) -> str:
    return re.escape(_prefix(name)) + r"[a-z0-9_]{8}\.tmp"


def _prefix(name: str) -> str:
    # A name may have 255 bytes.
    return f".{name[:40]}."


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
