"""Turns of the processes that use one GPU."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.children import Parent


class Turns:
    """Turns of the processes on one GPU: several may prepare at once, and one times while none does.

    A lock of the file ends with its process, however that ends; until then a process that does not time is
    among those that prepare: the end of a CUDA context keeps the GPU busy, too.

    Args:
        path: The file; empty if no other process is on the GPU.
    """

    def __init__(self, path: str = "") -> None:
        self._file = os.open(path, os.O_RDONLY) if path else None

    def prepare(self, parent: Parent) -> None:
        """Wait until no process times."""
        self._take(fcntl.LOCK_SH, parent)

    @contextmanager
    def for_time(self, parent: Parent) -> Iterator[None]:
        """Time while no other process uses the GPU."""
        self._take(fcntl.LOCK_EX, parent)
        try:
            yield
        finally:
            self._take(fcntl.LOCK_SH, parent)

    def _take(self, kind: int, parent: Parent) -> None:
        if self._file is not None:
            parent.tell({"waits": True})
            fcntl.flock(self._file, kind)
