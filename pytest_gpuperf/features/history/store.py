"""Store of the history: a file for each GPU and suite, in a folder."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

import filelock

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.history.lines import decode_lines, encode_lines, in_order
from pytest_gpuperf.records.json_files import find_files, show_path
from pytest_gpuperf.records.writing import write_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pytest_gpuperf.features.history.lines import HistoryLine

LOCK_TIMEOUT_S = 30.0
_LOCK = ".lock"
_OWN_FILES = {
    # Both sides of a merge have new lines at the end; readers sort.
    ".gitattributes": "*.jsonl merge=union\n",
    ".gitignore": f"{_LOCK}\n*.tmp\n",
}


class FolderStore:
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
        """Read all lines.

        Raises:
            GpuperfError: The history is missing, or a file in it is broken or of a newer version.
        """
        lines = in_order(self._files().values())
        if not lines:
            raise NoHistoryError(self.shown, "add runs with gpuperf history add RUN, or name --store")
        return lines

    def add(self, lines: Iterable[HistoryLine]) -> int:
        """Add the lines that are not there, and no line twice, even if other processes add at that time.

        Each file is replaced as a whole, so that it is complete whenever a process is killed.

        Returns:
            Number of new lines.

        Raises:
            GpuperfError: A file is broken or of a newer version, or another process holds the lock.
        """
        with self._locked():
            changed, new = merge(self._files(), lines)
            write_files({self.root / file: data for file, data in changed.items()})
        return new

    def _files(self) -> dict[str, list[HistoryLine]]:
        found = {}
        for path in find_files(self.root, "*/*.jsonl"):
            file = path.relative_to(self.root).as_posix()
            try:
                data = path.read_bytes()
            except OSError as error:
                raise GpuperfError(f"{show_path(path)} cannot be read: {error.strerror}") from None
            found[file] = decode_lines(data, file, show_path(path))
        return found

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


class NoHistoryError(GpuperfError):
    """A place without a history."""

    def __init__(self, shown: str, next_step: str) -> None:
        super().__init__(f"found no history in {shown}", next_step=next_step)


def merge(
    files: Mapping[str, list[HistoryLine]], lines: Iterable[HistoryLine]
) -> tuple[dict[str, bytes], int]:
    """Add lines to files; of one key, the line in the file stays.

    Returns:
        The files that change, and the number of new lines.
    """
    known = {line.key for of_file in files.values() for line in of_file}
    new: dict[str, list[HistoryLine]] = defaultdict(list)
    for line in lines:
        if line.key not in known:
            known.add(line.key)
            new[line.file].append(line)
    changed = {file: encode_lines(files.get(file, ()), added) for file, added in new.items()}
    return changed, sum(map(len, new.values()))
