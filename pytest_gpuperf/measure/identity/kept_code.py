"""Machine code of launched kernels, kept with the runs: a file for each hash."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_gpuperf.records.writing import write_files

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "code"
"""Folder of a run."""
MOST_BYTES = 4 << 20
"""Size of the largest kernel that is kept."""


class KeptCode:
    """The folder of a run with the code of its kernels.

    Args:
        folder: Need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stored: set[str] = set()

    def store(self, code: str, instructions: bytes) -> None:
        """Keep the code of a kernel; leave it out if the disk takes no more.

        Args:
            code: Its hash, as in `LaunchedKernel`.
            instructions: Its machine code.
        """
        if code in self._stored or not 0 < len(instructions) <= MOST_BYTES:
            return
        self._stored.add(code)
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            write_files({self._folder / _name(code): instructions})


def find_code(runs: Path, code: str) -> bytes | None:
    """Return the machine code that any run has kept under a hash; None if none has.

    Args:
        runs: Folder of all runs.
        code: The hash.

    Raises:
        OSError: It cannot be read.
    """
    if not code.isalnum():
        return None
    # Each of several workers has a folder of its own.
    found = next((path for one in runs.glob(f"*/{FOLDER}") for path in one.rglob(_name(code))), None)
    return None if found is None else found.read_bytes()


def _name(code: str) -> str:
    return f"{code}.bin"
