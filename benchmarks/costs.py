"""Measure the cost of a run at two commits: cold, warm, with counters, and against older code.

python -m benchmarks.costs measure --out FILE --commits OLD NEW [--minutes M] [--parts PART ...]   # on a GPU
                                   [--suites PATH ...] [--logs DIR]
python -m benchmarks.costs join FILE FILE --out FILE                                            # anywhere
python -m benchmarks.costs table FILE                                                           # anywhere

Each commit runs from a worktree with compile caches of its own. Its own baselines are not used: it may have
none of this GPU, and a time that differs from its baseline is measured three times. The cold run of all
suites makes baselines for the warm one, as the first run of a project does. A part of both commits comes
before the next part, and each time is in the file before the next one begins. Two processes of this program,
each with one of two GPUs and one of the commits, take half as long; `join` makes their files one.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal

import msgspec

from benchmarks import results_file
from benchmarks.children import ROOT, end_in_order_when_told, say
from benchmarks.markdown import provenance, table
from pytest_gpuperf.processes.children import run_child
from pytest_gpuperf.processes.git import run_git
from pytest_gpuperf.records import Environment, Record
from pytest_gpuperf.records.files import write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Part = Literal[
    "suites, cold",
    "checks ahead, 8 processes",
    "suites, checked ahead",
    "suites, warm",
    "cold",
    "warm",
    "counters by ncu",
    "counters by CUPTI",
    "against HEAD",
    "script with do_bench",
    "one test",
    "twelve tests",
    "one product, 8192³",
]
OPTIONS: Mapping[Part, tuple[str, ...]] = {
    "suites, cold": ("--gpuperf-update=new",),
    "checks ahead, 8 processes": ("-n8", "-ogpuperf_check=always"),
    "suites, checked ahead": ("--gpuperf-update=new",),
    "suites, warm": (),
    "cold": ("--gpuperf-counters=off",),
    "warm": ("--gpuperf-counters=off",),
    "counters by ncu": ("--gpuperf-counters=ncu",),
    "counters by CUPTI": ("--gpuperf-counters=cupti",),
    "against HEAD": ("--gpuperf-counters=off", "--gpuperf-against=HEAD"),
    "script with do_bench": (),
    "one test": ("--gpuperf-update=new",),
    "twelve tests": ("--gpuperf-update=new",),
    "one product, 8192³": ("--gpuperf-update=new",),
}
"""Options of each part, in the order in which they run: "cold" fills the compilers' caches."""
FIRST_VERDICT: Mapping[Part, str] = {
    "script with do_bench": "do_bench.py",
    "one test": "test_one.py",
    "twelve tests": "test_twelve.py",
    "one product, 8192³": "test_product.py",
}
"""Parts that run a file of `first_verdict`, in a project of its own: the median of three, after one more."""
ALL = "suites"
"""Beginning of the parts that run suites of a commit; the others run the same tests at each."""
AHEAD: Part = "checks ahead, 8 processes"
"""A part that only fills the compilers' caches. Before it they and the baselines of all suites go."""
SCHEMA = 1
CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "CUDA_CACHE_PATH")
MEMORY = (
    "copy_torch",
    "softmax_triton",
    "layer_norm_triton",
    "top_k_triton",
    "gather_triton",
    "column_sum_triton",
)
TESTS = (
    *(f"suites/test_memory_kernels.py::test_{name}[bf16]" for name in MEMORY),
    "suites/test_gemm.py::test_odd_triton[128x256x64]",
    "suites/test_gemm.py::test_small_batched_cublas",
    "suites/test_square.py::test_square_torch[781]",
)
"""Tests that old commits have too."""
MINUTES = 8.5


class Cost(Record, frozen=True, kw_only=True):
    """One run of pytest."""

    commit: str
    part: Part
    tests: int
    """Number of tests that have ended; 0 if the run was cut off."""
    failed: int = 0
    """Those of them that failed, and may have ended early."""
    seconds: float
    """Wall-clock time, the start of Python included."""
    cut_off: bool
    """True if the time was up, so that the run would have taken longer."""


class Results(Record, frozen=True, kw_only=True):
    """Results of one run of the benchmark."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment
    costs: tuple[Cost, ...]


Run = tuple[int, int, float, bool]
"""Tests that have ended, those of them that failed, seconds, and True if the run was cut off."""


def measure(
    commits: Sequence[str],
    seconds: float,
    write: Callable[[Cost], None],
    run: Callable[[str, Part, float], Run],
    clock: Callable[[], float] = time.monotonic,
    parts: Sequence[Part] = tuple(OPTIONS),
) -> None:
    """Run parts of all commits until the time is up.

    Args:
        commits: The commits to run.
        seconds: Wall-clock time in all.
        write: Receives each cost as it comes.
        run: Runs a part of a commit for some seconds at most.
        clock: Returns seconds.
        parts: The parts.
    """
    end = clock() + seconds
    for part in parts:
        for commit in commits:
            if (left := end - clock()) <= 0:
                say(f"no time is left for {part} of {commit}")
                return
            tests, failed, took, cut_off = run(commit, part, left)
            counts = {"tests": tests, "failed": failed}
            write(Cost(commit=commit, part=part, **counts, seconds=round(took, 2), cut_off=cut_off))
            say(f"{part}, {commit}: {took:.1f} s, {tests} tests, {failed} failed")


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)


def source(results: Results) -> str:
    """Return the GPU, the versions and the date."""
    return f"{provenance(results.environment, results.date)}.\n"


def joined(results: Sequence[Results]) -> Results:
    """Return the costs of several runs as one; the first one's date and environment stay.

    Raises:
        SystemExit: They are of several models of GPU or several versions of torch.
    """
    results_file.refuse_several_machines(one.environment for one in results)
    return msgspec.structs.replace(results[0], costs=tuple(cost for one in results for cost in one.costs))


def report(results: Results) -> str:
    """Format a row for each part, and a column of seconds for each commit."""
    commits = list(dict.fromkeys(cost.commit for cost in results.costs))
    found = {(cost.part, cost.commit): cost for cost in results.costs}
    rows = [
        [part, *(_cell(found.get((part, commit))) for commit in commits)]
        for part in OPTIONS
        if any((part, commit) in found for commit in commits)
    ]
    return table(["part", *(commit[:7] for commit in commits)], rows)


def _cell(cost: Cost | None) -> str:
    if cost is None:
        return ""
    if cost.cut_off:
        return f"> {cost.seconds:.0f}"
    failed = f", {cost.failed} failed" if cost.failed else ""
    if cost.part in FIRST_VERDICT:
        return f"{cost.seconds:.1f}{failed}"
    return f"{cost.seconds:.0f} ({cost.seconds / cost.tests:.1f}{failed})" if cost.tests else ""


@dataclass(frozen=True)
class Runs:
    """Runs of pytest in worktrees of commits."""

    folder: Path
    """Holds the worktrees, each named as its commit, and the caches."""
    tests: Sequence[str]
    suites: Sequence[str] = ("suites",)
    """Paths that the parts of all suites run."""
    logs: Path | None = None
    """Keeps the output of each run."""

    def __call__(self, commit: str, part: Part, seconds: float) -> Run:
        """Run a part of a commit for some seconds at most."""
        tree = self.folder / commit
        # Compiled Python is a cache, too, which people have.
        if part == AHEAD:
            for kind in ("caches", "baselines"):
                shutil.rmtree(self.folder / kind / commit, ignore_errors=True)
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            **{name: str(self.folder / "caches" / commit / name) for name in CACHES},
            "PYTHONPATH": os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": _entry(tree),
        }
        first = FIRST_VERDICT.get(part)
        of_all = part.startswith(ALL) or part == AHEAD
        paths = self.suites if of_all else [first] if first else self.tests
        project = self.folder / "first_verdict"
        if first and not project.exists():
            shutil.copytree(Path(__file__).parent / "first_verdict", project)
            (project / "pytest.ini").write_text("[pytest]\n")
        log = (self.logs or self.folder) / f"{commit}_{re.sub(r'[ ,]+', '_', part)}.log"
        baselines = self.folder / "baselines" / (commit if of_all or first else "none")
        baselines.mkdir(parents=True, exist_ok=True)
        options = (
            "-pxdist",  # as for a user, the tests run in a process of their own
            "-q",
            "--durations=40",
            *(["--gpuperf"] * (part != AHEAD)),
            f"-ogpuperf_baselines={baselines}",
            *OPTIONS[part],
        )
        command = [sys.executable, "-m", "pytest", *options, *paths]
        if first == "do_bench.py":
            command = [sys.executable, first]
        end, runs = time.monotonic() + seconds, list[float]()

        def poll() -> None:
            if time.monotonic() >= end:
                raise TimeoutError

        cut_off = False
        try:
            for _ in range(4 if first else 1):
                begin = time.monotonic()
                run_child(command, cwd=project if first else tree, env=environment, log=log, poll=poll)
                runs.append(time.monotonic() - begin)
            took = median(runs[len(runs) > 1 :])
        except TimeoutError:
            cut_off, took = True, time.monotonic() - begin
        return *ended_tests(log.read_text(errors="replace")), took, cut_off


def _entry(tree: Path) -> str:
    """Return the module that the worktree's package names as its plugin of pytest."""
    found = re.search(
        r'^gpuperf = "(pytest_gpuperf\.plugin.*)"$', (tree / "pyproject.toml").read_text(), re.M
    )
    assert found, f"found no entry point of pytest in {tree}"
    return found[1]


def ended_tests(output: str) -> tuple[int, int]:
    """Return the number of tests that pytest's last line counts, and of those that failed."""
    last = next((line for line in reversed(output.splitlines()) if re.search(r" in [\d.]+s", line)), "")
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|error)", last)}
    return sum(counts.values()), counts.get("failed", 0) + counts.get("error", 0)


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.costs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, dest="command")
    command = commands.add_parser("measure")
    command.add_argument("--out", type=Path, required=True, help="NAME.json")
    command.add_argument("--commits", nargs="+", required=True, metavar="COMMIT")
    command.add_argument("--minutes", type=float, default=MINUTES, help="wall-clock time in all")
    command.add_argument("--tests", nargs="+", default=TESTS, metavar="PATH")
    command.add_argument("--parts", nargs="+", default=tuple(OPTIONS), choices=tuple(OPTIONS))
    command.add_argument(
        "--suites", nargs="+", default=["suites"], metavar="PATH", help=f"what the parts of {ALL} run"
    )
    command.add_argument("--logs", type=Path, metavar="DIR", help="existing folder for the output")
    command = commands.add_parser("join")
    command.add_argument("files", type=Path, nargs="+", metavar="FILE")
    command.add_argument("--out", type=Path, required=True, help="NAME.json")
    command = commands.add_parser("table")
    command.add_argument("file", type=Path)
    given = parser.parse_args()
    if given.command == "join":
        write_files({given.out: results_file.encode(joined([read(path) for path in given.files]))})
        return
    if given.command == "table":
        found = read(given.file)
        print(source(found) + report(found))
        return
    from pytest_gpuperf.measure.device.environment import environment
    from pytest_gpuperf.measure.device.gpu_identity import gpu_info

    end_in_order_when_told()
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    where = environment(gpu_info(), ROOT, "")
    costs: list[Cost] = []

    def write(cost: Cost) -> None:
        costs.append(cost)
        results = Results(schema=SCHEMA, date=date, environment=where, costs=tuple(costs))
        write_files({given.out: results_file.encode(results)})

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        try:
            for commit in given.commits:
                run_git(ROOT, "worktree", "add", "--detach", str(folder / commit), commit)
            measure(
                given.commits,
                60 * given.minutes,
                write,
                Runs(folder, given.tests, given.suites, given.logs),
                parts=given.parts,
            )
        finally:
            for commit in given.commits:
                if (folder / commit).exists():
                    run_git(ROOT, "worktree", "remove", "--force", str(folder / commit))


if __name__ == "__main__":
    main()
