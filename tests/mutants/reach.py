"""Tests that reach a line, from the coverage of one run of all tests."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_S = 60.0
"""Seconds of tests to run for one mutant: the shortest ones, as many as fit."""
PLUGIN = """
import os, pathlib

def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        with pathlib.Path(os.environ["DURATIONS"]).open("a") as file:
            file.write(f"{report.duration:.4f} {report.nodeid}\\n")
"""


class Reach(msgspec.Struct, frozen=True):
    """The lines that each test reaches in its own process, and how long it takes."""

    lines: dict[str, dict[int, list[int]]]
    """Numbers of tests by file and line."""
    names: list[str]
    """Node ids of the tests."""
    seconds: list[float]
    """Duration of each test."""

    @classmethod
    def measured(cls, root: Path, kept: Path) -> Reach:
        """Run all tests under coverage, or read an earlier result.

        Args:
            root: The project.
            kept: File of the result.
        """
        if not kept.exists():
            with tempfile.TemporaryDirectory() as temporary:
                kept.write_bytes(msgspec.json.encode(_run(root, Path(temporary))))
        return msgspec.json.decode(kept.read_bytes(), type=cls)

    def tests(self, file: str, line: int) -> tuple[list[str], list[str]]:
        """Return the tests of a line: first those of tests/unit, which start quickly, then the others.

        A line that runs at import belongs to every test of its file, or of its folder if nothing else of the
        file runs in a test.
        """
        numbers = (
            self.lines.get(file, {}).get(line)
            or self._tests_of(lambda other: other == file)
            or self._tests_of(lambda other: Path(other).parent == Path(file).parent)
        )
        chosen: tuple[list[str], list[str]] = ([], [])
        for place in (0, 1):
            total = 0.0
            for number in sorted(numbers, key=lambda number: self.seconds[number]):
                if self.names[number].startswith("tests/unit/") is not (place == 0):
                    continue
                total += self.seconds[number]
                if total > MOST_S:
                    break
                chosen[place].append(self.names[number])
        return chosen

    def _tests_of(self, chosen: Callable[[str], bool]) -> list[int]:
        found = (tests for file, lines in self.lines.items() if chosen(file) for tests in lines.values())
        return sorted({number for tests in found for number in tests})


def _run(root: Path, folder: Path) -> Reach:
    (folder / "durations_plugin.py").write_text(PLUGIN)
    durations = folder / "durations"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "durations_plugin", "-p", "no:cacheprovider"]
    parallel = ["-n", "auto", "--maxprocesses", "4", "--dist", "loadfile"]
    cover = ["--cov=pytest_gpuperf", "--cov-context=test", "--cov-report="]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), str(folder)]),
        "COVERAGE_FILE": str(folder / "coverage"),
        "DURATIONS": str(durations),
    }
    # Coverage makes code slow, so some tests of speed fail: the mutants are judged without them.
    done = subprocess.run(
        [*command, *parallel, *cover, "tests/unit", "tests/plugin"], cwd=root, env=environment, check=False
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"mutants: pytest ended with exit status {done.returncode}; type `tox -e tests`")
    seconds: dict[str, float] = {}
    for text in durations.read_text().splitlines():
        duration, _, nodeid = text.partition(" ")
        seconds[nodeid.partition("@")[0]] = float(duration)
    names = sorted(seconds)
    numbers = {name: number for number, name in enumerate(names)}
    return Reach(_lines(folder / "coverage", root, numbers), names, [seconds[name] for name in names])


def _lines(data_file: Path, root: Path, numbers: dict[str, int]) -> dict[str, dict[int, list[int]]]:
    from coverage import CoverageData

    data = CoverageData(str(data_file))
    data.read()
    lines: dict[str, dict[int, list[int]]] = {}
    for path in data.measured_files():
        found: dict[int, list[int]] = defaultdict(list)
        for line, contexts in data.contexts_by_lineno(path).items():
            tests = {context.rpartition("|")[0].partition("@")[0] for context in contexts if context}
            found[line] = sorted(numbers[test] for test in tests if test in numbers)
        lines[Path(path).relative_to(root).as_posix()] = dict(found)
    return lines
