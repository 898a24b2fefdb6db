"""Measure how the first CUDA graphs of a process change the time of all its graphs.

python -m benchmarks.first_graphs    # on a GPU

Printed are the microseconds of a call in the first graph of the process, replayed after each further graph
is captured, then while CUPTI is attached, and at last after a torch.profiler has ended. A call is a
`torch.sort` (22 nodes of the graph on an H200) or a multiplication in place (one node). Each has a fresh
process. Without an effect all are equal.
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median
from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.measure.cupti.libcupti import OWNER, cupti
from pytest_gpuperf.measure.timing.graph import replay_us

if TYPE_CHECKING:
    from collections.abc import Callable

GRAPHS, CALLS, WARM, REPLAYS = 6, 20, 30, 40


def measure(name: str) -> list[float]:
    """Return the microseconds of a call after 1, 2, … graphs, with CUPTI, and after torch.profiler."""
    integers = torch.randint(0, 1 << 30, (1 << 20,), device="cuda")
    floats = torch.randn(1 << 20, device="cuda")
    calls: dict[str, Callable[[], object]] = {"sort": integers.sort, "multiplication": lambda: floats.mul_(1)}
    call = calls[name]

    def captured() -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        # Not by the plugin's own `capture`, which begins with graphs that nobody times.
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(CALLS):
                call()
        return graph

    def us() -> float:
        for _ in range(WARM):
            replay_us(graph)
        return median(replay_us(graph) for _ in range(REPLAYS)) / CALLS

    call()
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    graph = captured()
    found = [us()]
    for _ in range(GRAPHS - 1):
        captured()
        found.append(us())
    with OWNER.attached(cupti()):
        found.append(us())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
        call()
    return [*found, us()]


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(f"{sys.argv[1]:15}", *(f"{one:8.2f}" for one in measure(sys.argv[1])))
    else:
        heads = (*(f"{at + 1} graphs" for at in range(GRAPHS)), "CUPTI", "profiler")
        print(f"{'µs a call':15}", *(f"{one:>8}" for one in heads), flush=True)
        for name in ("sort", "multiplication"):
            subprocess.run([sys.executable, "-m", "benchmarks.first_graphs", name], check=True)
