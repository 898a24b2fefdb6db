"""The command `python -m mutants`, which `tox -e mutants` runs."""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from mutants.operators import Mutant, count, mutant
from mutants.reach import Reach
from mutants.trial import PRELOAD, Collected, failing

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
FILES = (
    "pytest_gpuperf/judge/**/*.py",
    "pytest_gpuperf/statistics/*.py",
    "pytest_gpuperf/baseline/*.py",
    "pytest_gpuperf/measure/timing/*.py",
    "pytest_gpuperf/metrics/*.py",
    "pytest_gpuperf/measure/ncu/*.py",
)
LONG_S = 20.0
"""Seconds that no test takes."""


@dataclass(frozen=True)
class Drawn:
    """A mutant and its file."""

    file: str
    mutant: Mutant

    @property
    def name(self) -> str:
        """The file and the change, by which `equivalent.txt` names the mutant: its line may move."""
        return f"{self.file}: {cropped(self.mutant.before, self.mutant.after)}".rstrip()


def cropped(before: str, after: str, width: int = 60) -> str:
    """Show the place that differs in two statements."""
    equal = (one == other for one, other in zip(before, after, strict=False))
    same = next((place for place, same in enumerate(equal) if not same), min(len(before), len(after)))
    start = max(0, same - width // 2)
    return " -> ".join(f"{'…' * bool(start)}{text[start : start + width]}" for text in (before, after))


def draw(number: int, seed: int, files: tuple[str, ...]) -> list[Drawn]:
    """Draw mutants, each as likely as any other."""
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for pattern in files
        for path in sorted(ROOT.glob(pattern))
    }
    every = [(file, index) for file, source in sources.items() for index in range(count(source))]
    chosen = random.Random(seed).sample(every, min(number, len(every)))
    return [Drawn(file, mutant(sources[file], index)) for file, index in sorted(chosen)]


def equivalents() -> dict[str, str]:
    """Return the mutants that behave as the original does, each with the reason."""
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines() if EQUIVALENT.exists() else []
    keys = [line for line in lines if line and not line.startswith(("#", " "))]
    reasons = [line.strip() for line in lines if line.startswith(" ")]
    return dict(zip(keys, reasons, strict=True))


def copy_of_project(folder: Path) -> Path:
    """Copy the files that git knows."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return folder


@dataclass(frozen=True)
class Worker:
    """A copy of the project with its tests."""

    project: Path
    collected: Collected

    def killer(self, drawn: Drawn, reach: Reach) -> str | None:
        """Return the test that fails with the mutant, if there is one."""
        mutant, path = drawn.mutant, self.project / drawn.file
        at_import = mutant.at_import or not reach.reaches(drawn.file, mutant.line)
        stages = reach.stages(drawn.file, mutant.line, at_import=at_import)
        original = path.read_text(encoding="utf-8")
        failed: list[str] | None = None
        with changed(path, mutant.source):
            if not at_import:
                tests = {name: seconds for stage in stages for name, seconds in stage.items()}
                failed = self.collected.failing(path, original, mutant.source, tests)
            if failed is not None:
                stages = stages[:1]  # a function that was called at import is noticed by the likeliest tests
            for stage in stages:
                failed = failed or failing(self.project, stage)
        if not failed:
            return None
        reach.remember(drawn.file, failed[0])
        return failed[0]


def failing_without_mutant(project: Path, tests: set[str]) -> set[str]:
    """Return the tests that fail although the code is only written in another way, as in each mutant."""
    with ExitStack() as stack:
        for pattern in FILES:
            for path in project.glob(pattern):
                stack.enter_context(changed(path, ast.unparse(ast.parse(path.read_text(encoding="utf-8")))))
        return set(failing(project, dict.fromkeys(sorted(tests), LONG_S), all_of_them=True))


@contextmanager
def changed(path: Path, source: str) -> Iterator[None]:
    """Give a file another content for a while."""
    original, times = path.read_bytes(), path.stat()
    path.write_text(source, encoding="utf-8")
    try:
        yield
    finally:
        path.write_bytes(original)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # its compiled code stays valid


def main() -> int:
    """Run the command; fail below the share that `--at-least` asks for."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="mutants to draw (default: 300)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-least", type=float, default=95.0, metavar="PERCENT")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--reach", type=Path, help="keep in this file which tests reach which lines")
    parser.add_argument("files", nargs="*", help="patterns of files (default: those of `FILES`)")
    options = parser.parse_args()
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(PRELOAD))
    drawn = draw(options.count, options.seed, tuple(options.files) or FILES)
    known = equivalents()
    tested = [one for one in drawn if one.name not in known]
    with tempfile.TemporaryDirectory() as temporary:
        reach = Reach.measured(ROOT, options.reach or Path(temporary, "reach.json"), options.jobs)
        workers: SimpleQueue[Worker] = SimpleQueue()
        for job in range(options.jobs):
            project = copy_of_project(Path(temporary, str(job)))
            workers.put(Worker(project, Collected(project, reach.files)))

        def judge(one: Drawn) -> str | None:
            worker = workers.get()
            try:
                return worker.killer(one, reach)
            finally:
                workers.put(worker)

        killers = {}
        with ThreadPoolExecutor(options.jobs) as pool:
            for number, (one, test) in enumerate(zip(tested, pool.map(judge, tested), strict=True), start=1):
                killers[one] = test
                if test is None:
                    print(f"unnoticed, line {one.mutant.line}: {one.name}", flush=True)
                elif sys.stderr.isatty():
                    print(f"{number} of {len(tested)}", end="\r", file=sys.stderr)
        unfit = failing_without_mutant(
            workers.get().project, {test for test in killers.values() if test and "::" in test}
        )
    for one, test in killers.items():
        if test in unfit:
            print(f"unknown, line {one.mutant.line}: {one.name}\n    {test} fails without a mutant too")
    noticed = sum(test is not None and test not in unfit for test in killers.values())
    share = 100 * noticed / len(tested)
    print(
        f"{noticed} of {len(tested)} mutants noticed ({share:.1f} %), {len(drawn) - len(tested)} equivalent; "
        f"seed {options.seed}"
    )
    return 0 if share >= options.at_least else 1


if __name__ == "__main__":
    raise SystemExit(main())
