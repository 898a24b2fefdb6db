"""One file of a repository: how it should be, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.json_files import show_path

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Piece:
    """A file, and what is to become of it."""

    path: Path
    said: str
    """What it is, what is added, or why it stays as it is."""
    text: str | None = None
    """What it should hold; None leaves it alone."""
    by_hand: str = ""
    """What its owner has to add."""


def new_file(path: Path, text: str, what: str) -> Piece:
    """A file that is written where there is none, and never over another."""
    there = read(path)
    if there is None:
        return Piece(path, what, text)
    if there == text:
        return Piece(path, "as it should be")
    return Piece(path, "yours differs; remove it to have it written anew")


def appended(text: str, addition: str) -> str:
    """A text with an addition, an empty line between them, and the line ends that the text has."""
    newline = "\r\n" if "\r\n" in text else "\n"
    whole = text.rstrip()
    return (whole + newline * 2 if whole else "") + addition.replace("\n", newline)


def read(path: Path) -> str | None:
    """What a file holds, line ends kept; None where there is none.

    Raises:
        GpuperfError: It cannot be read, or is no text.
    """
    try:
        # A byte order mark is kept, too: nothing but the addition changes.
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise GpuperfError(f"{show_path(path)} is no text", expected="UTF-8") from None
    except OSError as error:
        raise GpuperfError(f"{show_path(path)} cannot be read: {error.strerror}") from None
