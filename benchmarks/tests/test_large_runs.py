"""The project that `benchmarks.large_runs` replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.large_runs import TESTS_IN_FILE, make_project, used_by

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_generated_tests_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    make_project(tmp_path / "project", TESTS_IN_FILE)
    arguments = (
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "pytest_gpuperf.plugin.entry",
        "--gpuperf",
    )
    used = used_by(arguments, tmp_path / "project")
    log = (tmp_path / "project" / "output.log").read_text()
    assert f"{TESTS_IN_FILE} passed" in log
    assert used.status == 0
    assert used.memory_mb > 10
