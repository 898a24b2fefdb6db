"""Store of the history: a file for each GPU and suite, in a folder."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import filelock

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.history.history_line import decode_lines, encode_lines, in_order
from pytest_gpuperf.records.files import find_files, show_path, write_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pytest_gpuperf.features.history.history_line import HistoryLine

LOCK_TIMEOUT_S = 30.0
_LOCK = ".lock"
_OWN_FILES = {
    # Both sides of a merge have new lines at the end; readers sort.
    ".gitattributes": "*.jsonl merge=union\n",
    ".gitignore": f"{_LOCK}\n*.tmp\n",
}


class HistoryStore:
    """History below one folder: `<root>/<gpu slug>/<suite>.jsonl`.

    Args:
        root: The folder; need not exist.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def shown(self) -> str:
        """Name of the folder in messages."""
        return show_path(self.root)

    def load(self) -> list[HistoryLine]:
        """Read all lines; none if the history is missing.

        Raises:
            GpuperfError: A file is broken or of a newer version.
        """
        lines: list[HistoryLine] = []
        for path in find_files(self.root, "*/*.jsonl"):
            try:
                data = path.read_bytes()
            except OSError as error:
                raise GpuperfError(f"{show_path(path)} cannot be read: {error.strerror}") from None
            lines += decode_lines(data, path.relative_to(self.root).as_posix(), show_path(path))
        return in_order(lines)

    def add(self, lines: Iterable[HistoryLine]) -> int:
        """Add the lines that are not there, and no line twice, even if other processes add at that time.

        Of one key, the line in the file stays. Each file is replaced as a whole, so that it is complete
        whenever a process is killed.

        Returns:
            Number of new lines.

        Raises:
            GpuperfError: A file is broken or of a newer version, or another process holds the lock.
        """
        with self._locked():
            old = self.load()
            known = {line.key for line in old}
            new = in_order(line for line in lines if line.key not in known)
            write_files({
                self.root / file: encode_lines(line for line in (*old, *new) if line.file == file)
                for file in {line.file for line in new}
            })  # fmt: skip
        return len(new)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from writing between reading the files and writing new ones."""
        self.root.mkdir(parents=True, exist_ok=True)
        own = {self.root / name: text.encode() for name, text in _OWN_FILES.items()}
        write_files({path: data for path, data in own.items() if not path.exists()})
        try:
            with filelock.FileLock(self.root / _LOCK, timeout=LOCK_TIMEOUT_S):
                yield
        except filelock.Timeout:
            raise GpuperfError(
                f"another process adds to the history: {self.shown} is locked",
                next_step="wait until it has ended, then type the same again",
            ) from None
