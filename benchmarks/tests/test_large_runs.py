"""The project and the run file that `benchmarks.large_runs` measures."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from benchmarks.large_runs import (
    TESTS_IN_FILE,
    apart,
    large_run,
    make_project,
    used_at_once,
    used_by,
    write_runs,
)
from pytest_gpuperf.records.runs import encode_run

if TYPE_CHECKING:
    from pathlib import Path

PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize("plain", [False, True])
def test_generated_tests_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: bool) -> None:
    monkeypatch.delenv("CI", raising=False)
    make_project(tmp_path / "project", TESTS_IN_FILE, plain=plain)
    plugin = () if plain else ("-p", "pytest_gpuperf.plugin.entry", "--gpuperf")
    used = used_by((*PYTEST, *plugin), tmp_path / "project")
    log = (tmp_path / "project" / "output.log").read_text()
    assert f"{TESTS_IN_FILE} passed" in log
    assert used.status == 0
    assert used.memory_mb > 10


def test_processes_at_once_have_outputs_of_their_own(tmp_path: Path) -> None:
    used = used_at_once([("-c", "print('one')"), ("-c", "print('two'); raise SystemExit(3)")], tmp_path)
    assert [(tmp_path / name).read_text() for name in ("output.log", "output-1.log")] == ["one\n", "two\n"]
    assert used.status == 3
    assert used.memory_mb > 1.5 * used_at_once([("-c", "")], tmp_path).memory_mb


def test_run_file_has_the_size_that_was_asked_for() -> None:
    assert len(encode_run(large_run(4))) == pytest.approx(4e6, rel=0.1)


def test_files_are_made_in_another_process(tmp_path: Path) -> None:
    assert apart(os.getpid) != os.getpid()
    assert "a run file of 1 MB" in apart(write_runs, tmp_path, 1)
    assert (tmp_path / ".gpuperf" / "runs" / "other" / "run.json").exists()
