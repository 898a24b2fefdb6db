"""`gpuperf doctor`: checks of a project and the folders of its runs."""

from __future__ import annotations

import getpass
import os
from collections import namedtuple
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from doctor_builders import machine, said, without_gpu
from pytest_gpuperf.baseline.merge import accept
from pytest_gpuperf.cli import doctor
from pytest_gpuperf.cli.doctor import project
from pytest_gpuperf.records.runs import encode_run, recording_path
from run_builders import one_test

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.cli.doctor.check import CheckResult
    from pytest_gpuperf.cli.doctor.machine import Machine

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Make the folder of a machine with an empty project."""
    (tmp_path / "project").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("probe", "variable"),
    [(project.triton_cache, "TRITON_CACHE_DIR"), (project.inductor_cache, "TORCHINDUCTOR_CACHE_DIR")],
)
def test_cache_is_sized_empty_or_unwritable(
    here: Path, monkeypatch: pytest.MonkeyPatch, probe: Callable[[Machine], CheckResult], variable: str
) -> None:
    cache = here / "cache" / "new"
    there = machine(here, environ={variable: str(cache)})
    assert said(probe(there)) == ("ok", "empty: the first run compiles", "")
    (cache / "a").mkdir(parents=True)
    for name in ("x", "a/y"):
        (cache / name).write_bytes(b"0" * 2_000_000)
    assert said(probe(there)) == ("ok", "4 MB", "")
    monkeypatch.setattr(project, "FILES_COUNTED", 0)
    assert said(probe(there)) == ("ok", "more than 2 MB", "")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != cache)
    assert said(probe(there)) == (
        "problem",
        "its folder cannot be written: each run compiles its kernels again, or fails",
        f"export {variable}=FOLDER, one that you may write",
    )


def test_caches_have_the_folders_of_their_owners(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here / "home"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(here))
    for folder in ("home/.triton/cache", "other/.triton/cache", f"torchinductor_{getpass.getuser()}"):
        (here / folder).mkdir(parents=True)
        (here / folder / "x").write_bytes(b"0" * len(folder) * 1000)
    assert project.triton_cache(machine(here)).text == "18 kB"
    assert project.triton_cache(machine(here, environ={"TRITON_HOME": str(here / "other")})).text == "19 kB"
    assert project.inductor_cache(machine(here)).text == f"{14 + len(getpass.getuser())} kB"


@pytest.mark.parametrize(
    ("free", "state", "text"),
    [
        (79_300_000_000, "ok", "79.3 GB free for .gpuperf"),
        (900_000_000, "warning", "900 MB free for .gpuperf"),
        (50_000_000, "problem", "50 MB free for .gpuperf"),
    ],
)
def test_run_needs_room(
    here: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: str, text: str
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(0, 0, free))
    fix = "" if state == "ok" else "make room; gpuperf_keep = 5 in pytest's configuration keeps fewer runs"
    assert said(project.disk(machine(here))) == (state, text, fix)


def test_state_folder_that_cannot_be_written_is_a_problem(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert said(project.disk(machine(here))) == (
        "problem",
        ".gpuperf cannot be written: no run can be kept",
        "make .gpuperf yours: chown, chmod",
    )


def test_baselines_of_this_gpu_are_counted(here: Path) -> None:
    there = machine(here)
    assert said(project.baselines(there)) == (
        "warning",
        "none for nvidia-h200",
        "pytest --gpuperf --gpuperf-update=new",
    )
    accept(one_test(), there.project.store, "all", 5.0)
    text = "nvidia-h200: 1 suite, 1 test, 1 session for each time"
    assert said(project.baselines(machine(here))) == ("ok", text, "")
    assert said(project.baselines(without_gpu(here))) == ("ok", "for nvidia-h200", "")


def test_baselines_of_other_gpus_are_named(here: Path) -> None:
    other = here / "project" / "baselines" / "nvidia-a100"
    other.mkdir(parents=True)
    (other / "test_k.json").write_text("{}")
    text = project.baselines(machine(here)).text
    assert text == "none for nvidia-h200 (there are some for nvidia-a100)"


def test_broken_baseline_is_a_problem(here: Path) -> None:
    accept(one_test(), machine(here).project.store, "all", 5.0)
    next((here / "project" / "baselines").glob("*/*.json")).write_text("<<<<<<< HEAD")
    found = {one.name: one for one in doctor.examine(machine(here))}["baselines"]
    assert found.state.value == "problem"
    assert "is not valid JSON" in found.text
    assert "git restore" in found.fix


def test_missing_recording_is_a_warning_without_a_gpu(here: Path) -> None:
    fix = "gpuperf record (after a run on a GPU)"
    assert said(project.recordings(without_gpu(here))) == (
        "warning",
        "none: there is nothing to replay",
        fix,
    )
    assert said(project.recordings(machine(here))) == (
        "absent",
        "none: machines without a GPU have nothing to replay",
        fix,
    )
    path = recording_path(here / "project" / "baselines", one_test())
    path.parent.mkdir(parents=True)
    path.write_bytes(encode_run(one_test()))
    expected = ("ok", "1, the newest of NVIDIA H200, 2026-11-20", "")
    assert said(project.recordings(without_gpu(here))) == expected
