"""A project in a git repository whose tests replay a recording, for fleets without GPUs."""

from __future__ import annotations

import os
import subprocess
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.features.fleet.dispatch import FleetDisplay
from pytest_gpuperf.records.run_store import encode_run, newest_recordings, recording_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from distributed import LocalCluster

    from pytest_gpuperf.features.fleet.results import ModelResults
    from pytest_gpuperf.records import Run

ROOT = Path(__file__).parent.parent
MODEL = "nvidia-h200"
TEST_FILE = """\
import pytest


def kernel():
    raise AssertionError("a replay calls nothing")


@pytest.mark.parametrize("case", range({tests}))
def test_kernel(gpuperf, case):
    gpuperf.check(kernel, expected=kernel)
    gpuperf.time(kernel)


@pytest.mark.gpuperf(limits=["time_us <= 0.001"])
def test_limit(gpuperf):
    gpuperf.check(kernel, expected=kernel)
    gpuperf.time(kernel)


def test_plain():
    pass


def test_skipped():
    pytest.skip("as planned")
"""


def largest_recording() -> Run:
    """Return the recording of an H200 with the most tests."""
    runs = [run for run in newest_recordings(ROOT / "baselines") if run.environment.gpu.slug == "nvidia-h200"]
    return max(runs, key=lambda run: len(run.tests))


def make_project(folder: Path, *, files: int, tests: int) -> None:
    """Write and commit a project.

    Args:
        folder: An empty folder.
        files: Number of test files.
        tests: Number of measuring tests in each; another one fails, one measures nothing, and one is skipped.
    """
    recorded = largest_recording()
    whole = cycle([one for one in recorded.tests if "test_square.py" in one.nodeid])
    names = [f"test_{number}.py" for number in range(files)]
    for name in names:
        (folder / name).write_text(TEST_FILE.format(tests=tests), encoding="utf-8")
    measured = [
        replace(next(whole), nodeid=f"{name}::{test}", limits=())
        for name in names
        for test in (*(f"test_kernel[{case}]" for case in range(tests)), "test_limit")
    ]
    path = recording_path(folder / "baselines", recorded)
    path.parent.mkdir(parents=True)
    path.write_bytes(encode_run(replace(recorded, tests=tuple(measured))))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n", encoding="utf-8")
    (folder / ".gitignore").write_text("__pycache__/\n.gpuperf/\n", encoding="utf-8")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "project")


def git(folder: Path, *arguments: str) -> str:
    """Run git with a name of its own, and return its output."""
    name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ["git", *name, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def local_cluster(
    workers: int, *, gpus: int = 1, processes: bool = True
) -> AbstractContextManager[LocalCluster]:
    """Start workers in the working directory, each of which announces GPUs.

    Args:
        workers: Number of workers.
        gpus: Number of GPUs of each.
        processes: True for processes, which can be killed and are then replaced.
    """
    from distributed import LocalCluster

    # The tests of a fleet need neither a GPU nor other plugins.
    os.environ.update(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTEST_PLUGINS="pytest_gpuperf.plugin.entry")
    cluster: AbstractContextManager[LocalCluster] = LocalCluster(
        n_workers=workers,
        threads_per_worker=gpus,
        processes=processes,
        resources={MODEL: gpus},
        dashboard_address=":0",
        memory_limit=0,
        silence_logs=50,
    )
    return cluster


class Counting(FleetDisplay):
    """Follows a fleet, and counts how often each test ends."""

    def __init__(self) -> None:
        self.ends: dict[tuple[str, str], int] = {}
        """By model and node id."""
        self.notes: list[str] = []

    def note(self, line: str) -> None:
        """Keep a line."""
        self.notes.append(line)

    def ended(self, results: ModelResults, nodeids: Sequence[str], worker: str) -> None:
        """Count the ends."""
        del worker
        for nodeid in nodeids:
            key = (results.model, nodeid)
            self.ends[key] = self.ends.get(key, 0) + 1


def verdicts(results: ModelResults) -> Iterator[tuple[str, str]]:
    """Return the verdict of each judged test, by node id."""
    return ((result.record.nodeid, result.status.value) for result in results.results)
