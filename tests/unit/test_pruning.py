"""Old runs and reports are removed, and nothing that somebody else made."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import msgspec
import pytest

from pytest_gpuperf.records import pruning
from pytest_gpuperf.records.passes import RESULTS_FILE
from pytest_gpuperf.records.pruning import find_old
from pytest_gpuperf.records.run_store import RunStore
from run_builders import one_test, run

if TYPE_CHECKING:
    from pathlib import Path

FILES = (
    "ncu/report.ncu-rep",
    "ncu/events.jsonl",
    f"code/{64 * 'a'}.bin",
    "sanitizer/1/sanitizer.log",
    "sanitizer/1/plan.json",
    "traces/test_k-main-1a2b3c4d.json.gz",
    "against/old.log",
)


def name(number: int) -> str:
    return f"20261120-1730{number:02}-3f9a"


@pytest.fixture
def runs(project: Path) -> Path:
    """Return the folder of eight runs, each with all kinds of reports."""
    store = RunStore(project / ".gpuperf")
    for number in range(8):
        folder = store.write(msgspec.structs.replace(one_test(), id=name(number))).parent
        for file in FILES:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text("x" * 1000)
    return store.folder


def prune(runs: Path, kept: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruning, "RUNS_KEPT", kept)
        for old in find_old(runs.parent):
            old.remove()
        assert find_old(runs.parent) == []


def with_file(runs: Path, file: str) -> list[str]:
    return sorted(path.name for path in runs.iterdir() if (path / file).exists())


def days_ago(path: Path, days: float) -> None:
    then = time.time() - days * 86400
    os.utime(path, (then, then))


def test_newest_runs_and_reports_are_kept(runs: Path) -> None:
    prune(runs, 5)
    assert sorted(path.name for path in runs.iterdir()) == [name(number) for number in range(3, 8)]
    for file in FILES:
        assert with_file(runs, file) == [name(number) for number in range(5, 8)]
    assert with_file(runs, "ncu") == with_file(runs, FILES[0])
    prune(runs, 2)
    assert with_file(runs, FILES[-1]) == with_file(runs, "run.json") == [name(6), name(7)]


def test_few_runs_are_kept_and_none_without_reports_is_read(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prune(runs, 8)
    assert len(with_file(runs, "run.json")) == 8
    assert len(with_file(runs, FILES[0])) == 3
    monkeypatch.setattr(pruning, "_is_unfinished", lambda run: pytest.fail(f"{run} was read"))
    assert find_old(runs.parent) == []


def test_missing_folder_has_nothing_old(tmp_path: Path) -> None:
    assert find_old(tmp_path / "none") == []


def test_files_of_others_stay(runs: Path, project: Path) -> None:
    (project / "mine").mkdir()
    (project / "mine/report.ncu-rep").write_text("mine")
    (runs / name(0) / "notes.md").write_text("mine")
    (runs / name(0) / "ncu/annotated.ncu-rep").write_text("mine")
    (runs / name(1) / "run.json").unlink()
    (runs / name(1) / "run.json").symlink_to(project / "mine/report.ncu-rep")
    (runs / "20261119-000000-aaaa").symlink_to(project / "mine")
    (runs / "20261118-000000-aaaa").mkdir()
    (runs / "20261118-000000-aaaa/ncu").symlink_to(project / "mine")
    others = ("release", "20261120-173000-3f9", "20261120-173000-3F9A")
    for other in others:
        (runs / other).mkdir()
        (runs / other / "run.json").write_text("{}")
    (runs / "20261117-000000-aaaa").write_text("a file")
    prune(runs, 1)
    assert (project / "mine/report.ncu-rep").read_text() == "mine"
    assert {path.name for path in (runs / name(0)).rglob("*")} == {"annotated.ncu-rep", "ncu", "notes.md"}
    assert (runs / "20261118-000000-aaaa/ncu").is_symlink()
    for path in ("20261119-000000-aaaa", "20261117-000000-aaaa", *(f"{other}/run.json" for other in others)):
        assert (runs / path).exists()


def test_run_that_may_be_going_on_stays(runs: Path) -> None:
    going_on = [RunStore(runs.parent).write(run(id="20261101-000000-aaaa", complete=False)).parent]
    going_on.append(runs / "20261102-000000-aaaa/ncu/plan.json")
    going_on[1].parent.mkdir(parents=True)
    going_on[1].write_text("{}")
    prune(runs, 1)
    assert [path.exists() for path in going_on] == [True, True]
    for path in (going_on[0], going_on[0] / "run.json", going_on[1].parents[1]):
        days_ago(path, 2)
    prune(runs, 1)
    assert [path.exists() for path in going_on] == [False, False]


def test_folders_of_killed_runs_are_removed(runs: Path) -> None:
    left = runs / "20261101-000000-aaaa"
    left.mkdir()
    for file in (".run.json.abcd1234.tmp", RESULTS_FILE.format(0)):
        (left / file).write_text("{")
    days_ago(left, 2)
    prune(runs, 1)
    assert left.exists() is False
