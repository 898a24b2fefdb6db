"""Lock that limits a GPU to one run at a time, across the processes and users of a host.

Two runs on one GPU disturb each other's times. The lock is `flock(2)` on a file named by the GPU's UUID, so
it ends with the process that holds it, even if that process is killed. `filelock` is not used: in a folder
that everybody may write, a lock must not follow links, empty the file while it waits, or fall back to a file
that outlives a killed process. Versions of filelock differ in these points, and two users have two versions.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError

if sys.platform != "win32":  # where nothing is measured
    import fcntl

    _FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FOLDERS = (Path("/tmp"), Path("/var/lock"))  # noqa: S108
"""The first writable one is taken. Not `TMPDIR`: users who set it would not see each other's locks."""

HELD_ENV = "GPUPERF_HELD_GPU"
"""What this process or an ancestor has locked, with commas: a process never waits for itself."""

POLL_S = 0.2


@dataclass(frozen=True)
class Holder:
    """Process that has a GPU locked, read from the lock file."""

    pid: int = 0
    """Pid in the process's own container; 0 if the file does not name one."""
    since: float = 0.0
    """Seconds of the Unix clock."""

    def __str__(self) -> str:
        """Return text such as `pid 1234 (pytest) has been measuring for 12 s`."""
        if not self.pid:
            return "another process is measuring"
        seconds = max(0, int(time.time() - self.since))
        shown = f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
        return f"pid {self.pid} (pytest) has been measuring for {shown}"


class GpuLock:
    """Exclusive use of one GPU, from `acquire` to `release` or to the end of the process.

    Args:
        uuid: UUID of the GPU or of its MIG slice.
        folders: Folders that may hold the lock file; the same for all users of the host.
    """

    def __init__(self, uuid: str, folders: Sequence[Path] = FOLDERS) -> None:
        self._uuid = uuid
        self._folders = folders
        self._fd: int | None = None

    @property
    def gpu(self) -> str:
        """Short name of the GPU for messages: `GPU-c410…`."""
        return f"{self._uuid[:8]}…"

    def acquire(self, waiting: Callable[[Holder], None] = lambda _: None) -> None:
        """Wait without a limit until this process has the lock.

        Args:
            waiting: Called several times a second while another process holds the lock.

        Raises:
            GpuperfError: No file can be locked.
        """
        if self._uuid in _held():
            return
        path = self._path()
        try:
            while self._fd is None:
                self._fd = _lock(path, waiting)
        except OSError as error:
            raise _unusable(path, error) from None
        with suppress(OSError):  # the text is for messages only; the lock holds without it
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()} {time.time():.0f}\n".encode(), 0)
        os.environ[HELD_ENV] = ",".join((*_held(), self._uuid))

    def release(self) -> None:
        """Let others measure; do nothing if this process does not hold the lock."""
        if self._fd is None:
            return
        others = [uuid for uuid in _held() if uuid != self._uuid]
        os.environ.pop(HELD_ENV, None)
        if others:
            os.environ[HELD_ENV] = ",".join(others)
        # Closing alone does not unlock: forked children have the descriptor too.
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        os.close(self._fd)
        self._fd = None

    def holder(self) -> Holder | None:
        """Return the process that measures on the GPU now, None if there is none.

        Raises:
            GpuperfError: The file cannot be read.
        """
        path = self._path()
        try:
            fd = _open(path)
            try:
                return None if _try(fd) else _read(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise _unusable(path, error) from None

    def _path(self) -> Path:
        for folder in self._folders:
            if os.access(folder, os.W_OK | os.X_OK):
                return folder / f"pytest-gpuperf-{re.sub(r'[^0-9A-Za-z-]', '_', self._uuid)}.lock"
        names = " nor ".join(map(str, self._folders))
        raise GpuperfError(f"neither {names} is writable")


def _held() -> list[str]:
    return list(filter(None, os.environ.get(HELD_ENV, "").split(",")))


def _lock(path: Path, waiting: Callable[[Holder], None]) -> int | None:
    """Return the descriptor of the locked file; None if another file has replaced it meanwhile."""
    with ExitStack() as undo:
        fd = _open(path)
        undo.callback(os.close, fd)
        while not _try(fd):
            waiting(_read(fd))
            time.sleep(POLL_S)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), os.lstat(path)):
                undo.pop_all()
                return fd
    return None


def _open(path: Path) -> int:
    """Open a lock file of any user, or make it; refuse anything else at its path."""
    with suppress(FileExistsError):
        fd = os.open(path, _FLAGS | os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        os.fchmod(fd, 0o666)  # regardless of the umask
        return fd
    # Without O_CREAT, which fs.protected_regular forbids for another user's file in a sticky folder.
    try:
        fd = os.open(path, _FLAGS | os.O_RDWR)
    except PermissionError:
        fd = os.open(path, _FLAGS | os.O_RDONLY)  # enough to lock it
    except FileNotFoundError:
        return _open(path)  # somebody removed it since
    found = os.fstat(fd)
    # A second hard link could be another file of the user.
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(fd)
        raise OSError(errno.EINVAL, "not a plain file with one name")
    return fd


def _try(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(fd: int) -> Holder:
    """Read the holder from the file; empty if anybody has written other text."""
    text = re.fullmatch(rb"([1-9]\d{0,9}) (\d{1,12})\n", os.pread(fd, 64, 0))
    return Holder(int(text[1]), float(text[2])) if text else Holder()


def _unusable(path: Path, error: OSError) -> GpuperfError:
    reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
    return GpuperfError(
        f"{path} cannot be locked: {reason}",
        expected="a plain file that every user may write",
        next_step="remove it while nothing is measured",
    )
