"""One file of a repository: its new text, and the message about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.json_files import show_path

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Piece:
    """A file, and the change to it."""

    path: Path
    said: str
    """Purpose of the file, the addition, or the reason why it stays the same."""
    text: str | None = None
    """New text; None leaves the file alone."""
    by_hand: str = ""
    """Text that its owner has to add by hand."""


def new_file(path: Path, text: str, what: str) -> Piece:
    """Return a file that is written only if it does not exist."""
    there = read(path)
    if there is None:
        return Piece(path, what, text)
    if there == text:
        return Piece(path, "as it should be")
    return Piece(path, "yours differs; remove it to have it written again")


def appended(text: str, addition: str) -> str:
    """Add to a text after an empty line, with the text's own line ends."""
    newline = "\r\n" if "\r\n" in text else "\n"
    whole = text.rstrip()
    return (whole + newline * 2 if whole else "") + addition.replace("\n", newline)


def read(path: Path) -> str | None:
    """Read a file with its line ends; None if it does not exist.

    Raises:
        GpuperfError: It cannot be read, or is not text.
    """
    try:
        # The byte order mark stays too: only the addition changes.
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise GpuperfError(f"{show_path(path)} is not text", expected="UTF-8") from None
    except OSError as error:
        raise GpuperfError(f"{show_path(path)} cannot be read: {error.strerror}") from None
