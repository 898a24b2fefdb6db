"""The start and the end of a side process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest_gpuperf
from pytest_gpuperf.against import side_import_path

if TYPE_CHECKING:
    import pytest

ENDING = """
import atexit, ctypes, threading, time
from pytest_gpuperf.against.side_import_path import leave

class Freed:
    def __del__(self): print("freed")

kept = Freed()
atexit.register(print, "at exit")
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
ctypes.CDLL(None).printf(b"native")
leave(3)
"""


def test_a_side_waits_for_threads_and_exit_functions_but_frees_nothing() -> None:
    path = os.pathsep.join([str(Path(pytest_gpuperf.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", ENDING],
        env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": ""},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.split("\n")) == (3, ["thread", "at exit", "native"])


def test_built_packages_come_before_finders_of_editable_installs(tmp_path: Path) -> None:
    """Find also their compiled modules there, which such a finder would take from the checkout."""
    for name in (files := ("pkg/__init__.py", "pkg/_core.py")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    finder = side_import_path.Built(str(tmp_path))
    found = [finder.find_spec("pkg"), finder.find_spec("pkg._core", [str(tmp_path / "pkg")])]
    assert [spec.origin for spec in found if spec] == [str(tmp_path / name) for name in files]
    assert finder.find_spec("pkg.gone", [str(tmp_path / "pkg")]) is None
    assert finder.find_spec("json") is None


def test_only_files_that_are_read_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(side_import_path, "opened", set())
    for event, details in (
        *(("open", (name, "r", os.O_RDONLY)) for name in ("data", b"bytes", Path("path"))),
        ("open", ("log", "a", os.O_WRONLY | os.O_CREAT)),
        ("open", (3, "r", os.O_RDONLY)),
        ("open", ("odd", None, None)),
        ("import", ("json", None, None)),
    ):
        side_import_path.note_opened(event, details)
    assert {str(tmp_path / name) for name in ("data", "bytes", "path")} == side_import_path.opened
