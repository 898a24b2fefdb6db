"""A project whose history are sessions of H200s that a benchmark recorded.

The sessions are real; the commits between them are not. Each process of the benchmark timed every kernel as
it is and with more work. Here a commit adds work to a kernel, and another one takes it away again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from benchmarks.gate_power.samples import Began, SessionSample, read
from pytest_gpuperf.features.history.run_lines import lines_of
from pytest_gpuperf.features.history.store import HistoryStore
from pytest_gpuperf.processes.git import run_git
from pytest_gpuperf.records import RUN_SCHEMA, Measurement, Run, TestRecord

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.features.history.history_line import HistoryLine

KERNELS = {
    "row sum": "test_row_sum",
    "copy 512 MB": "test_copy[512]",
    "arithmetic 50 µs": "test_arithmetic[50]",
    "matmul bf16": "test_matmul[bf16]",
}
SLOWER = {"row sum": (19, 30, 10), "arithmetic 50 µs": (8, 20, 20)}
"""First run of the slower code, the first one after it, and the added work in ‰."""
GPU = "nvidia-h200"
_BEGAN = 1_795_000_000
"""Date of the first commit, in seconds since 1970."""


def write_history(root: Path, project: Path) -> None:
    """Make a history with a run for each commit of a new repository."""
    samples = sorted((root / "benchmarks" / "results").glob("gate_power*.jsonl.gz"))
    processes: dict[int, dict[tuple[str, int], SessionSample]] = {}
    began: dict[int, Began] = {}
    newest: Began | None = None
    for line in read(samples):
        if isinstance(line, Began):
            newest = line
        elif isinstance(line, SessionSample) and newest is not None and newest.environment.gpu.slug == GPU:
            processes.setdefault(line.process, {})[line.kernel, line.permille] = line
            began.setdefault(line.process, newest)
    chosen = [at for at, found in processes.items() if all((kernel, 0) in found for kernel in KERNELS)]
    commits = _commits(project, len(chosen))
    lines: list[HistoryLine] = []
    for at, (process, (commit, date)) in enumerate(zip(chosen, commits, strict=True)):
        run = _run(at, processes[process], began[process], commit)
        lines += lines_of(run, {}, commit_date=date).lines
    HistoryStore(project / "perf-history").add(lines)


def _run(at: int, found: dict[tuple[str, int], SessionSample], began: Began, commit: str) -> Run:
    tests = []
    for kernel, name in KERNELS.items():
        first, end, permille = SLOWER.get(kernel, (0, 0, 0))
        sample = found[kernel, permille if first <= at < end else 0]
        measured = {"main": Measurement(timing=sample.timing)}
        tests.append(TestRecord(nodeid=f"perf/test_kernels.py::{name}", measurements=measured))
    time = began.date.translate(str.maketrans("T", "-", "-:Z"))
    return Run(
        schema=RUN_SCHEMA,
        id=f"{time}-{at:04x}",
        started_at=began.date,
        environment=structs.replace(began.environment, commit=commit, dirty=False),
        tests=tuple(tests),
    )


def _commits(project: Path, number: int) -> list[tuple[str, str]]:
    """Make a repository with so many commits, the same ones each time; return their ids and dates."""
    run_git(project, "init", "--quiet", "--initial-branch=main")
    who = "committer A <a@example.org>"
    stream = "".join(
        f"commit refs/heads/main\n{who} {_BEGAN + 3600 * at} +0000\ndata 6\nChange\n" for at in range(number)
    )
    run_git(project, "fast-import", "--quiet", stdin=stream.encode())
    listed = run_git(project, "log", "--reverse", "--format=%H %cI", "main").decode().splitlines()
    return [(commit, date) for commit, _, date in (line.partition(" ") for line in listed)]
