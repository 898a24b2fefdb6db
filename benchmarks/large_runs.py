"""Measure seconds and memory of large runs: many replayed tests, and commands that read a large run file.

    python -m benchmarks.large_runs                     # everything; some minutes and 1 GB of disk
    python -m benchmarks.large_runs replay --tests 2000

Tests and run file repeat the records of the largest recording in the repository under new names. Each command
runs in a process of its own, whose CPU seconds and largest resident memory the kernel counts.
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

from pytest_gpuperf.baseline.merge import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.records.runs import RunStore, encode_run, newest_recordings, recording_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_gpuperf.records import Run, TestRecord

P = ParamSpec("P")
T = TypeVar("T")

ROOT = Path(__file__).parent.parent
TESTS = 10_000
MEGABYTES = 240
TESTS_IN_FILE = 100
TEST_FILE = f"""\
import pytest


def kernel():
    raise AssertionError("a replay calls nothing")


@pytest.mark.parametrize("case", range({TESTS_IN_FILE}))
def test_kernel(gpuperf, case):
    gpuperf(kernel, expected=kernel)
"""
PLAIN_CONFTEST = """\
import pytest


@pytest.fixture
def gpuperf():
    return lambda *args, **kwargs: None
"""
"""For the same tests without the plugin: the share of pytest itself."""
COMMANDS: dict[str, Sequence[str]] = {
    "compare": ("compare", "large", "other"),
    "compare --json": ("compare", "large", "other", "--json"),
    "export csv": ("export", "large", "--format", "csv", "-o", "large.csv"),
    "export json": ("export", "large", "--format", "json", "-o", "large-rows.json"),
    "export parquet": ("export", "large", "--format", "parquet", "-o", "large.parquet"),
    "report": ("report", "large", "-o", "report.html"),
    "explain": ("explain", "large", "--json"),
    "baseline accept --dry-run": ("baseline", "diff", "large", "--json"),
}
"""Arguments of `gpuperf`, by the name of the figure."""


class Used(NamedTuple):
    """Resources of one process and its children, or of several at once."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    """Largest resident memory of one process, in MB; those of several are added."""
    status: int

    def __str__(self) -> str:
        """Return a row of the table."""
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
    return used_at_once([arguments], folder)


def used_at_once(commands: Sequence[Sequence[str]], folder: Path) -> Used:
    """Run Python with several lists of arguments at once; the first one's output is in `output.log`.

    Args:
        commands: Arguments of each process.
        folder: Their working directory.
    """
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    begin = time.perf_counter()
    children = []
    for at, arguments in enumerate(commands):
        with (folder / (f"output-{at}.log" if at else "output.log")).open("wb") as log:
            command = [sys.executable, *arguments]
            child = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT)
            children.append(child)
    usages = []
    for child in children:
        # Not `wait`: only this call returns the resources of one child.
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        usages.append(usage)
    return Used(
        time.perf_counter() - begin,
        sum(usage.ru_utime + usage.ru_stime for usage in usages),
        sum(usage.ru_maxrss for usage in usages) / 1000,
        max(child.returncode for child in children),
    )


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
        # The generated tests select no kernels.
        profile = replace(main.profile, regex="", launches="")
        found.append(replace(test, nodeid=nodeid, measurements={"main": replace(main, profile=profile)}))
    return tuple(found)


def nodeids_of(tests: int) -> list[str]:
    """Return the names of the generated tests."""
    return [f"perf/test_{n // TESTS_IN_FILE:04}.py::test_kernel[{n % TESTS_IN_FILE}]" for n in range(tests)]


def make_project(folder: Path, tests: int, *, plain: bool = False) -> None:
    """Write a project of so many tests, with a recording and baselines; if plain, with neither.

    Args:
        folder: An empty folder.
        tests: Number of tests, a multiple of `TESTS_IN_FILE`.
        plain: True for a fixture that does nothing.
    """
    suites = folder / "perf"
    suites.mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    names = [f"test_{number:04}.py" for number in range(tests // TESTS_IN_FILE)]
    for name in names:
        (suites / name).write_text(TEST_FILE, encoding="utf-8")
    if plain:
        (folder / "conftest.py").write_text(PLAIN_CONFTEST, encoding="utf-8")
        return
    run = recorded()
    run = replace(run, tests=repeated(run.tests, nodeids_of(tests)))
    path = recording_path(folder / "baselines", run)
    path.parent.mkdir(parents=True)
    path.write_bytes(encode_run(run))
    accept(run, BaselineStore(folder / "baselines", state=folder / ".gpuperf"), "all", 0.0)


def replayed(tests: int) -> Iterator[tuple[str, Used]]:
    """Yield the resources of a replay, of one in two shards, and of the same tests without the plugin."""
    with tempfile.TemporaryDirectory() as folder:
        measured, plain = Path(folder) / "measured", Path(folder) / "plain"
        apart(make_project, measured, tests)
        make_project(plain, tests, plain=True)
        pytest = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
        yield "pytest alone", used_by(pytest, plain)
        plugin = (*pytest, "-p", "pytest_gpuperf.plugin.entry", "--gpuperf")
        yield "pytest --gpuperf", used_by(plugin, measured)
        shards = [(*plugin, f"--gpuperf-shard={shard}/2") for shard in (1, 2)]
        yield "two shards at once", used_at_once(shards, measured)


def large_run(megabytes: int, name: str = "large", shift: int = 0) -> Run:
    """Return a run whose file has about so many megabytes.

    Args:
        megabytes: Size in 10⁶ bytes.
        name: Id of the run.
        shift: Number of records by which tests are shifted: with another one, nearly all values differ.
    """
    run = recorded()
    run = replace(run, tests=run.tests[shift:] + run.tests[:shift])
    sample = replace(run, tests=repeated(run.tests, nodeids_of(len(run.tests))))
    tests = int(megabytes * 1e6 / (len(encode_run(sample)) / len(run.tests)))
    return replace(run, id=name, tests=repeated(run.tests, nodeids_of(tests)))


def write_runs(folder: Path, megabytes: int) -> str:
    """Write two large runs, and return a line about the first."""
    store = RunStore(folder / ".gpuperf")
    run = large_run(megabytes)
    size = store.write(run).stat().st_size
    store.write(large_run(megabytes, "other", shift=1))
    return f"a run file of {size / 1e6:.0f} MB, {len(run.tests):,} tests\n"


def read(megabytes: int, only: Sequence[str] = ()) -> Iterator[tuple[str, Used]]:
    """Yield the resources of each command on a large run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        sys.stdout.write(apart(write_runs, folder, megabytes))
        for title, arguments in COMMANDS.items():
            if only and title not in only:
                continue
            entry = ("-c", "from pytest_gpuperf.cli import main; main()")
            found = used_by((*entry, *arguments), folder)
            yield title, found
            if found.status:
                sys.stdout.write((folder / "output.log").read_text(encoding="utf-8")[-2000:])


def main() -> None:
    """Measure, and print a row for each command."""
    parser = argparse.ArgumentParser(description="Measure seconds and memory of large runs.")
    parser.add_argument("what", nargs="?", choices=("replay", "read"), help="default: both")
    parser.add_argument("--tests", type=int, default=TESTS, help="number of replayed tests")
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help="size of the run file")
    parser.add_argument("--only", action="append", default=[], choices=list(COMMANDS))
    given = parser.parse_args()
    os.environ.pop("CI", None)  # in CI no baseline is accepted
    if given.what != "read":
        for title, used in replayed(given.tests):
            sys.stdout.write(f"{title:24} {used}\n")
    if given.what != "replay":
        for title, used in read(given.megabytes, given.only):
            sys.stdout.write(f"{title:24} {used}\n")


if __name__ == "__main__":
    main()
