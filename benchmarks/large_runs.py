"""Measure seconds and memory of a replay of many tests.

    python -m benchmarks.large_runs --tests 10000

The tests repeat the records of the largest recording in the repository under new names. pytest runs in a
process of its own, whose CPU seconds and largest resident memory the kernel counts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

from msgspec.structs import replace

from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.records.run_store import encode_run, newest_recordings, recording_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.records import Run, TestRecord

P = ParamSpec("P")
T = TypeVar("T")

ROOT = Path(__file__).parent.parent
TESTS = 10_000
TESTS_IN_FILE = 100
TEST_FILE = f"""\
import pytest


def kernel():
    raise AssertionError("a replay calls nothing")


@pytest.mark.parametrize("case", range({TESTS_IN_FILE}))
def test_kernel(gpuperf, case):
    gpuperf(kernel, expected=kernel)
"""


class Used(NamedTuple):
    """Resources of one process and its children."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    """Largest resident memory of one process, in MB."""
    status: int

    def __str__(self) -> str:
        """Return the figures in a line."""
        failed = "" if self.status == 0 else f"  exit status {self.status}"
        return f"{self.wall_s:7.1f} s {self.cpu_s:7.1f} CPU s {self.memory_mb:7.0f} MB{failed}"


def apart(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a process of its own.

    The kernel counts the memory of this process as that of each child until the child has begun a program, so
    this process must stay smaller than those that it measures.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *args, **kwargs).result()


def used_by(arguments: Sequence[str], folder: Path) -> Used:
    """Run Python with these arguments in a folder, with its output in `output.log` there."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    begin = time.perf_counter()
    with (folder / "output.log").open("wb") as log:
        command = [sys.executable, *arguments]
        child = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT)
        # Not `wait`: only this call returns the resources of one child.
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begin
    return Used(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000, child.returncode)


def recorded() -> Run:
    """Return the recording with the most tests that were checked, timed and profiled, with these."""
    runs = [
        replace(run, tests=tuple(filter(_is_whole, run.tests)))
        for run in newest_recordings(ROOT / "baselines")
    ]
    return max(runs, key=lambda run: len(run.tests))


def _is_whole(test: TestRecord) -> bool:
    main = test.measurements.get("main")
    if main is None or main.profile is None or test.failure:
        return False
    return bool(main.profile.kernels and main.timing and main.correctness)


def repeated(tests: Sequence[TestRecord], nodeids: Sequence[str]) -> tuple[TestRecord, ...]:
    """Return records of these names, each a copy of the next test; the last one is followed by the first."""
    found = []
    for nodeid, test in zip(nodeids, cycle(tests), strict=False):
        main = test.measurements["main"]
        assert main.profile is not None
        # The generated tests select no kernels and trace nothing.
        profile = replace(main.profile, regex="", launches="")
        found.append(
            replace(test, nodeid=nodeid, measurements={"main": replace(main, profile=profile, trace=None)})
        )
    return tuple(found)


def nodeids_of(tests: int) -> list[str]:
    """Return the names of the generated tests."""
    return [f"perf/test_{n // TESTS_IN_FILE:04}.py::test_kernel[{n % TESTS_IN_FILE}]" for n in range(tests)]


def make_project(folder: Path, tests: int) -> None:
    """Write a project of so many tests, a multiple of `TESTS_IN_FILE`, with a recording and baselines."""
    suites = folder / "perf"
    suites.mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    for number in range(tests // TESTS_IN_FILE):
        (suites / f"test_{number:04}.py").write_text(TEST_FILE, encoding="utf-8")
    run = recorded()
    run = replace(run, tests=repeated(run.tests, nodeids_of(tests)))
    path = recording_path(folder / "baselines", run)
    path.parent.mkdir(parents=True)
    path.write_bytes(encode_run(run))
    accept(run, BaselineStore(folder / "baselines", state=folder / ".gpuperf"), "all", 0.0)


def replayed(tests: int) -> Used:
    """Return the resources of a replay."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "project"
        apart(make_project, folder, tests)
        pytest = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_gpuperf.plugin.entry")
        return used_by((*pytest, "--gpuperf"), folder)


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description="Measure seconds and memory of a replay of many tests.")
    parser.add_argument("--tests", type=int, default=TESTS, help="number of replayed tests")
    os.environ.pop("CI", None)  # in CI no baseline is accepted
    sys.stdout.write(f"{replayed(parser.parse_args().tests)}\n")


if __name__ == "__main__":
    main()
