"""Fixtures of tests that run pytest in their own process."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import pytest

import loaded_once
from against_project import PLUGIN, TESTS
from forked import run_forked
from pytest_gpuperf.records.run_store import encode_run, recording_path
from run_builders import measured, record, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.records import Run

    AddRecording = Callable[[Run], None]

loaded_once.load()


@pytest.fixture(autouse=True)
def _only_this_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable other plugins in the runs of a test: their import takes half a second each time."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_gpuperf.plugin.entry")


@pytest.fixture
def forked_runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes of `runpytest_subprocess`, which spares each of them the import of torch."""

    def run(*arguments: str, timeout: float | None = None) -> pytest.RunResult:
        logs = (pytester.path / "stdout", pytester.path / "stderr")
        given = (f"--basetemp={pytester.path / 'basetemp'}", *map(str, arguments))
        begin = time.perf_counter()
        status = run_forked(given, os.environ, logs, timeout)
        out, err = (log.read_text(encoding="utf-8").splitlines() for log in logs)
        sys.stdout.write("\n".join([*out, *err, ""]))  # shown if the test fails
        return pytest.RunResult(status, out, err, time.perf_counter() - begin)

    monkeypatch.setattr(pytester, "runpytest_subprocess", run)


@pytest.fixture
def fake_gpu_runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, forked_runs: None) -> None:
    """Let runs with `-p fake_gpu` find it, and lock nothing of other runs."""
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("temporary")))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (TESTS, PLUGIN))))


@pytest.fixture
def add_recording(pytester: pytest.Pytester) -> AddRecording:
    """Store a run as a recording of the project under test."""

    def add(recorded: Run) -> None:
        path = recording_path(pytester.path / "baselines", recorded)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_run(recorded))

    return add


@pytest.fixture
def replay(add_recording: AddRecording) -> None:
    """Store a recording of `test_k.py::test_k` for a run without a GPU to replay."""
    add_recording(run(record("test_k.py::test_k", main=measured(5.3, {"memory_throughput": 77.0}))))
