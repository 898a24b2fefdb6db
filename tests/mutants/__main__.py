"""The command `python -m mutants`, which `tox -e mutants` runs."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from mutants.operators import Mutant, count, mutant
from mutants.reach import Reach

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
LIMIT_S = 120.0
"""Seconds for the tests of one mutant; a mutant that makes them hang counts as noticed."""


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


def noticed(drawn: Drawn, project: Path, reach: Reach) -> bool:
    """Return True if a test fails with the mutant."""
    path = project / drawn.file
    original = path.read_text(encoding="utf-8")
    path.write_text(drawn.mutant.source, encoding="utf-8")
    try:
        return any(fails(project, tests) for tests in reach.tests(drawn.file, drawn.mutant.line) if tests)
    finally:
        path.write_text(original, encoding="utf-8")


def fails(project: Path, tests: list[str]) -> bool:
    """Run tests until the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    environment = {**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


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
    known = equivalents()
    drawn = draw(options.count, options.seed, tuple(options.files) or FILES)
    with tempfile.TemporaryDirectory() as temporary:
        projects: SimpleQueue[Path] = SimpleQueue()
        for job in range(options.jobs):
            projects.put(copy_of_project(Path(temporary, str(job))))
        reach = Reach.measured(ROOT, options.reach or Path(temporary, "reach.json"))

        def judge(one: Drawn) -> str:
            if one.name in known:
                return "equivalent"
            project = projects.get()
            try:
                return "noticed" if noticed(one, project, reach) else "unnoticed"
            finally:
                projects.put(project)

        results = []
        with ThreadPoolExecutor(options.jobs) as pool:
            for number, (one, result) in enumerate(zip(drawn, pool.map(judge, drawn), strict=True), start=1):
                results.append(result)
                if result != "noticed":
                    print(f"{result}, line {one.mutant.line}: {one.name}", flush=True)
                elif sys.stderr.isatty():
                    print(f"{number} of {len(drawn)}", end="\r", file=sys.stderr)
    tested = len(results) - results.count("equivalent")
    share = 100 * results.count("noticed") / tested
    print(
        f"{results.count('noticed')} of {tested} mutants noticed ({share:.1f} %), "
        f"{results.count('equivalent')} equivalent; seed {options.seed}"
    )
    return 0 if share >= options.at_least else 1


if __name__ == "__main__":
    raise SystemExit(main())
