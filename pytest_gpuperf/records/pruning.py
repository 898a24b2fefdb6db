"""Old files of a project below `.gpuperf/`; only what this tool made is ever removed."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pytest_gpuperf.records.files import HEAD_BYTES, find_files
from pytest_gpuperf.records.run_store import RUN_FILES, RUN_ID

REPORTS = ("ncu", "sanitizer", "traces", "against", "code")
"""Folders of a run with reports, logs, traces and machine code."""
RUNS_KEPT = 50
"""Number of runs that are kept."""
REPORTS_KEPT = 3
"""Number of runs whose reports are kept: a report has the code of every kernel, often tens of megabytes."""
UNFINISHED_KEPT_S = 86_400
"""Seconds after which a run without an end is old: until then another process may be measuring."""

_REPORT = re.compile(
    r"plan\.json|events\.jsonl|report\.ncu-rep|(ncu|pytest|sanitizer|old|new)\.log|[\w-]+\.json\.gz|[0-9a-f]{64}\.bin"
)
_RUN_FILE = re.compile(r"(\.)?(run\.json(\.gz)?|passes-\d+\.msgpack)(?(1)\.[a-z0-9_]{8}\.tmp)")


class ObsoleteFiles(NamedTuple):
    """Files that are not needed any more."""

    folder: Path
    """The folder of a run."""
    files: list[Path]
    """Files in it, and below it."""
    is_run: bool
    """True for a whole run; False for its reports."""

    def remove(self) -> None:
        """Remove the files, and the folders of a run that are empty then.

        Raises:
            OSError: One of them cannot be removed.
        """
        for file in self.files:
            file.unlink(missing_ok=True)
        for folder, _, _ in os.walk(self.folder, topdown=False):
            if self.is_run or Path(folder) != self.folder:
                with suppress(OSError):  # something else is in it
                    Path(folder).rmdir()


def find_old(state: Path) -> list[ObsoleteFiles]:
    """Return what can be removed, the oldest run first.

    Files with other names, links, and folders without the name of a run are somebody else's.

    Args:
        state: The `.gpuperf` folder; need not exist.

    Raises:
        OSError: A folder cannot be read.
    """
    named = [path for path in find_files(state / "runs", "*") if RUN_ID.fullmatch(path.name)]
    runs = [path for path in named if path.is_dir() and not path.is_symlink()]
    reports = {run: {one.name: files for one in run.iterdir() if (files := _reports(one))} for run in runs}
    kept = {name: [run for run in runs if name in reports[run]][-REPORTS_KEPT:] for name in REPORTS}
    found = []
    for number, run in enumerate(reversed(runs)):
        is_old = number >= RUNS_KEPT and not _is_unfinished(run)
        files = [
            path for path in run.iterdir() if is_old and _RUN_FILE.fullmatch(path.name) and _is_own(path)
        ]
        for name, some in reports[run].items():
            files += some if is_old or (run not in kept[name] and not _is_unfinished(run)) else []
        if files or (is_old and not any(run.iterdir())):
            found.append(ObsoleteFiles(run, files, is_old))
    return found[::-1]


def _reports(folder: Path) -> list[Path]:
    """Return the files that this tool made in a folder of reports; none if it is another one, or a link."""
    if folder.name not in REPORTS or folder.is_symlink():
        return []
    places = (Path(top, name) for top, _, names in os.walk(folder) for name in names)
    return [path for path in places if _REPORT.fullmatch(path.name) and _is_own(path)]


def _is_own(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _is_unfinished(run: Path) -> bool:
    """Return True for a run that another process may be measuring."""
    packed, path = run / RUN_FILES[1], run / RUN_FILES[0]
    newest = max(place.lstat().st_mtime for place in (run, path) if place.exists())
    if packed.is_file() or time.time() - newest > UNFINISHED_KEPT_S:
        return False
    if not path.is_file():
        return any(run.iterdir())
    with path.open("rb") as file:
        return b'"complete":false' in file.read(HEAD_BYTES)
