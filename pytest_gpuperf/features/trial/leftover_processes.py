"""Limits for a solution, which has all rights of the user: processes that it leaves behind, and ours.

On Linux only; elsewhere nothing happens.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36


def seal() -> None:
    """Keep other processes of this user from the memory and the descriptors of this one."""
    _prctl(PR_SET_DUMPABLE, 0)


@contextmanager
def descendants_ended() -> Iterator[None]:
    """Kill processes that were started in the block and still run after it, also in sessions of its own."""
    before = _children()
    # Processes whose parent has ended become children of this one.
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        while left := _children() - before:
            for pid in left:
                with suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
        _prctl(PR_SET_CHILD_SUBREAPER, 0)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)


def _children() -> set[int]:
    return {int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _parent_of(folder) == os.getpid()}


def _parent_of(folder: Path) -> int:
    with suppress(OSError):  # it has just ended
        return int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return 0
