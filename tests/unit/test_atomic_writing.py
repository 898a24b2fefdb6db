"""Files are written completely or not at all, and links, devices and pipes stay what they are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from command_line import gpuperf
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.records.run_store import RunStore, recording_path
from run_builders import one_test

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def test_error_in_the_content_leaves_no_file(project: Path) -> None:
    def broken() -> Sequence[bytes]:
        raise OSError("broken")

    def pieces() -> object:
        yield b"a"
        yield broken()

    with pytest.raises(OSError, match="broken"):
        write_files({project / "new/x": b"", project / "new/y": pieces()})  # type: ignore[dict-item]
    assert list((project / "new").iterdir()) == []


def leftovers(project: Path) -> list[Path]:
    """Make the files that a killed process leaves, and return them."""
    recordings = recording_path(project / "baselines", one_test()).parent
    recordings.mkdir(parents=True)
    names = (".test_square.json.abcd_123.tmp", ".other.json.0123abcd.tmp")
    found = [folder / name for folder in (recordings, recordings.parent) for name in names]
    for path in found:
        path.write_text("{")
    return found


def accept(project: Path) -> None:
    RunStore(project / ".gpuperf").write(one_test())
    gpuperf("baseline", "accept", status=0)


def test_next_write_removes_files_of_killed_processes(project: Path) -> None:
    left = leftovers(project)
    new = left[0].with_name(".new.json.abcd_123.tmp")
    new.touch()  # by a living writer
    for path in left:
        os.utime(path, (0, 0))
    accept(project)
    assert [path for path in (*left, new) if path.exists()] == [new]


def test_similar_files_of_others_stay(project: Path) -> None:
    left = leftovers(project)[0].parent.parent
    names = (".gitignore", ".x.tmp", ".x.json.tmp", "x.json.abcd1234.tmp", ".x.json.ABCD1234.tmp")
    for name in names:
        (left / name).touch()
        os.utime(left / name, (0, 0))
    (left / ".f.json.abcd1234.tmp").mkdir()
    accept(project)
    assert all((left / name).exists() for name in (*names, ".f.json.abcd1234.tmp"))


def test_readers_ignore_leftovers(project: Path) -> None:
    leftovers(project)
    store = BaselineStore(project / "baselines")
    assert store.slugs() == []
    result = gpuperf("baseline", "status")
    assert result.stdout == "no baselines in baselines\n"
