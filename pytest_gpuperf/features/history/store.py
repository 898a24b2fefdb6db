"""Store of the history: a file for each GPU and suite, in a folder or on a branch."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

import filelock

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.history.lines import Lines, decode_file, encode_file, encode_line, in_order
from pytest_gpuperf.records.json_files import find_files, show_path
from pytest_gpuperf.records.writing import write_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pytest_gpuperf.features.history.record import HistoryLine

LOCK_TIMEOUT_S = 30.0
_LOCK = ".lock"
_OWN_FILES = {
    # Both sides of a merge have new lines at the end; readers sort.
    ".gitattributes": "*.jsonl merge=union\n",
    ".gitignore": f"{_LOCK}\n*.tmp\n",
}


class History(NamedTuple):
    """Content of a store."""

    lines: list[HistoryLine]
    """By GPU and suite, then by date."""
    notes: list[str]
    """Torn lines that were left out."""


class Added(NamedTuple):
    """Result of adding lines."""

    new: int
    notes: list[str]
    """Torn lines that were removed."""


class Store(Protocol):
    """Place of the history."""

    @property
    def shown(self) -> str:
        """Name of the place in messages."""

    def load(self) -> History:
        """Read all lines.

        Raises:
            GpuperfError: The history is missing, or a file in it is broken or of a newer version.
        """

    def add(self, lines: Iterable[HistoryLine]) -> Added:
        """Add the lines that are not there, and no line twice, even if other processes add at that time.

        Raises:
            GpuperfError: As `load`, or the place cannot be written.
        """


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

    def load(self) -> History:
        """Read all lines.

        Raises:
            GpuperfError: The history is missing, or a file in it is broken or of a newer version.
        """
        paths = find_files(self.root, "*/*.jsonl")
        if not paths:
            raise NoHistoryError(self.shown, "add runs with gpuperf history add RUN, or name --store")
        return history_of({show_path(path): self._read(path) for path in paths})

    def add(self, lines: Iterable[HistoryLine]) -> Added:
        """Add the lines that are not there.

        Each file is replaced as a whole, so that it is complete whenever a process is killed.

        Raises:
            GpuperfError: As `load`, or another process holds the lock.
            OSError: As the file system says.
        """
        new, notes, changed = 0, [], {}
        with self._locked():
            for place, some in by_place(lines).items():
                path = self.root / place[0] / f"{place[1]}.jsonl"
                found = self._read(path)
                merged = union(found.lines, {encode_line(line): line for line in some})
                if len(merged) > len(found.lines) or found.torn:
                    changed[path] = encode_file(merged)
                new += len(merged) - len(found.lines)
                notes += [torn_note(show_path(path), found, "removed")] if found.torn else []
            write_files(changed)
        return Added(new, notes)

    def _read(self, path: Path) -> Lines:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise GpuperfError(f"{show_path(path)} cannot be read: {error.strerror}") from None
        return decode_file(data, show_path(path), (path.parent.name, path.stem))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from writing between reading the files and writing new ones."""
        self.root.mkdir(parents=True, exist_ok=True)
        missing = {
            self.root / name: text.encode()
            for name, text in _OWN_FILES.items()
            if not (self.root / name).exists()
        }
        write_files(missing)
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


def history_of(files: Mapping[str, Lines]) -> History:
    """Put the lines of all files together; `files` has the names for messages."""
    lines = [line for found in files.values() for line in found.lines.values()]
    notes = [torn_note(shown, found, "left out") for shown, found in files.items() if found.torn]
    return History(lines, notes)


def by_place(lines: Iterable[HistoryLine]) -> dict[tuple[str, str], list[HistoryLine]]:
    """Group lines by GPU and suite: each group has a file."""
    places: dict[tuple[str, str], list[HistoryLine]] = {}
    for line in lines:
        places.setdefault(line.place, []).append(line)
    return places


def union(*files: Mapping[bytes, HistoryLine]) -> dict[bytes, HistoryLine]:
    """Return the lines of several files by date, each once; of one key, those of the first file stay."""
    merged: dict[bytes, HistoryLine] = {}
    keys: set[tuple[str, str, str, str]] = set()
    for lines in files:
        merged.update({text: line for text, line in lines.items() if line.key not in keys})
        keys.update(line.key for line in lines.values())
    return in_order(merged)


def torn_note(shown: str, found: Lines, done: str) -> str:
    """Name a torn line, and the way to get it back."""
    start = found.torn[:60].decode(errors="replace")
    return f"{shown}: the last line is torn and was {done} ({start}…): add its run again"
