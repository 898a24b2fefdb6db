"""Paths of files: finding them, and showing them in messages."""

from __future__ import annotations

import os
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path


def find_files(folder: Path, pattern: str) -> list[Path]:
    """Return the paths below a folder that match, sorted; none if the folder does not exist.

    `Path.glob` also finds hidden files, and ignores folders that cannot be read.

    Args:
        folder: The top.
        pattern: Names separated by slashes, with `*` as in a shell.

    Raises:
        OSError: The folder, or one in it, is not a folder or cannot be read.
    """
    first, _, rest = pattern.partition("/")
    try:
        paths = sorted(
            path for path in folder.iterdir() if path.name[0] != "." and fnmatchcase(path.name, first)
        )
    except FileNotFoundError:
        return []
    if not rest:
        return paths
    return [path for below in paths if below.is_dir() for path in find_files(below, rest)]


def show_path(path: Path) -> str:
    """Return the path as people type it: relative to the working directory if it is below it."""
    # The working directory may be gone.
    with suppress(ValueError, OSError):
        path = Path(os.path.realpath(path)).relative_to(Path.cwd())
    return path.as_posix()
