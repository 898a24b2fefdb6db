"""Tests that reach a line, from the coverage of one run of all tests."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

UNIT, PLUGIN = "tests/unit", "tests/plugin"
MOST_S = 20.0
"""Seconds of tests of a folder to run for one mutant: the likeliest and shortest ones, as many as fit."""
DURATIONS = """
import os, pathlib

def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        with pathlib.Path(os.environ["DURATIONS"]).open("a") as file:
            file.write(f"{report.duration:.4f} {report.nodeid}\\n")
"""


class TestFile(msgspec.Struct, frozen=True):
    """What the tests of a file reach in their own process."""

    __test__ = False

    digests: dict[str, str]
    """Of the test file and the files that it reaches, at the time of the run."""
    names: list[str]
    """Node ids of the tests."""
    seconds: list[float]
    """Duration of each test."""
    lines: dict[str, dict[int, list[int]]]
    """Numbers of tests by file and line."""


class Reach:
    """The tests to run for a mutant, those first that are likely to notice it."""

    def __init__(self, files: dict[str, TestFile]) -> None:
        self._files = files
        self._seconds = {
            name: seconds
            for one in files.values()
            for name, seconds in zip(one.names, one.seconds, strict=True)
        }
        self._kills: Counter[tuple[str, str]] = Counter()

    @classmethod
    def measured(cls, root: Path, kept: Path, jobs: int) -> Reach:
        """Run the tests under coverage, but read the results of test files for which nothing changed.

        Args:
            root: The project.
            kept: File of the results.
            jobs: Number of processes.
        """
        files = msgspec.json.decode(kept.read_bytes(), type=dict[str, TestFile]) if kept.exists() else {}
        paths = [path for folder in (UNIT, PLUGIN) for path in sorted(root.glob(f"{folder}/test_*.py"))]
        present = [path.relative_to(root).as_posix() for path in paths]
        files = {name: files[name] for name in present if name in files and _unchanged(root, files[name])}
        if missing := [name for name in present if name not in files]:
            with tempfile.TemporaryDirectory() as temporary:
                files |= _run(root, missing, Path(temporary), jobs)
            kept.write_bytes(msgspec.json.encode(files))
        return cls(files)

    @property
    def files(self) -> list[str]:
        """Files with tests that reach the package."""
        return [name for name, tests in self._files.items() if tests.lines]

    def remember(self, file: str, test: str) -> None:
        """Let a test that noticed a mutant of a file run first for the next ones."""
        self._kills[file, test] += 1
        self._kills[file, _file(test)] += 1

    def reaches(self, file: str, line: int) -> bool:
        """Return True if a test runs a line, so that it does not only run at import."""
        return bool(self._reaching(lambda other: other == file, line))

    def stages(self, file: str, line: int, *, at_import: bool) -> list[dict[str, float]]:
        """Return tests and their seconds: of the likeliest file, other unit tests, and the rest.

        A line that runs at import belongs to every test of its file, then to every test of its folder.
        """
        own = self._reaching(lambda other: other == file, None if at_import else line)
        near = self._reaching(lambda other: Path(other).parent == Path(file).parent) if at_import else set()
        left = {UNIT: MOST_S, PLUGIN: MOST_S}
        chosen: dict[str, dict[str, float]] = defaultdict(dict)
        for test in sorted(
            own | near, key=lambda test: (-self._kills[file, test], test not in own, self._seconds[test])
        ):
            folder = UNIT if test.startswith(UNIT) else PLUGIN
            left[folder] -= self._seconds[test]
            if left[folder] > 0:
                chosen[_file(test)][test] = self._seconds[test]
        order = sorted(chosen, key=lambda name: (-self._kills[file, name], -self._share(name, file)))
        unit = [name for name in order if name.startswith(UNIT)]
        stages = (unit[:1], unit[1:], [name for name in order if name not in unit])
        return [{test: s for name in stage for test, s in chosen[name].items()} for stage in stages if stage]

    def _reaching(self, chosen: Callable[[str], bool], line: int | None = None) -> set[str]:
        return {
            one.names[number]
            for one in self._files.values()
            for reached, lines in one.lines.items()
            if chosen(reached)
            for at, numbers in lines.items()
            if line in (None, at)
            for number in numbers
        }

    def _share(self, name: str, file: str) -> float:
        """Return how much of what a test file reaches is in a file of the package."""
        lines = {reached: sum(map(len, lines.values())) for reached, lines in self._files[name].lines.items()}
        return lines.get(file, 0) / (sum(lines.values()) or 1)


def _file(test: str) -> str:
    return test.partition("::")[0]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _unchanged(root: Path, tests: TestFile) -> bool:
    return all(_digest(root / name) == digest for name, digest in tests.digests.items())


def _run(root: Path, files: list[str], folder: Path, jobs: int) -> dict[str, TestFile]:
    (folder / "durations_plugin.py").write_text(DURATIONS)
    durations = folder / "durations"
    durations.touch()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "durations_plugin", "-p", "no:cacheprovider"]
    parallel = ["-n", str(jobs), "--dist", "loadfile"]
    cover = ["--cov=pytest_gpuperf", "--cov-context=test", "--cov-report="]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), str(folder)]),
        "COVERAGE_FILE": str(folder / "coverage"),
        "DURATIONS": str(durations),
    }
    # Coverage makes code slow, so some tests of speed fail: the mutants are judged without them.
    done = subprocess.run([*command, *parallel, *cover, *files], cwd=root, env=environment, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"mutants: pytest ended with exit status {done.returncode}; type `tox -e tests`")
    seconds: dict[str, dict[str, float]] = {name: {} for name in files}
    for text in durations.read_text().splitlines():
        duration, _, nodeid = text.partition(" ")
        seconds[_file(nodeid)][nodeid.partition("@")[0]] = float(duration)
    lines = _lines(folder / "coverage", root)
    return {name: _test_file(root, name, seconds[name], lines[name]) for name in files}


def _test_file(
    root: Path, name: str, seconds: dict[str, float], reached: dict[str, dict[int, list[str]]]
) -> TestFile:
    names = list(seconds)
    numbers = {test: number for number, test in enumerate(names)}
    lines = {
        file: {line: [numbers[test] for test in tests if test in numbers] for line, tests in found.items()}
        for file, found in reached.items()
    }
    digests = {file: _digest(root / file) for file in (name, *reached)}
    return TestFile(digests, names, list(seconds.values()), lines)


def _lines(data_file: Path, root: Path) -> dict[str, dict[str, dict[int, list[str]]]]:
    """Return the tests by test file, file and line."""
    from coverage import CoverageData

    data = CoverageData(str(data_file))
    data.read()
    lines: dict[str, dict[str, dict[int, list[str]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for path in data.measured_files():
        file = Path(path).relative_to(root).as_posix()
        for line, contexts in data.contexts_by_lineno(path).items():
            for test in sorted(
                {context.rpartition("|")[0].partition("@")[0] for context in contexts if context}
            ):
                lines[_file(test)][file][line].append(test)
    return lines
