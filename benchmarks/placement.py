"""How much of a short kernel's time is where its memory lies.

python -m benchmarks.placement measure --out FILE    # on a GPU
python -m benchmarks.placement table FILE            # anywhere

One process times each kernel on several sets of tensors, inputs and output alike, which lie elsewhere each,
all of them in turn, several times over. What a time differs by on the same tensors is the timer's doing, and
what it differs by from set to set beyond that is the memory's.
"""

from __future__ import annotations

import argparse
import datetime
import math
from functools import partial
from pathlib import Path
from statistics import fmean, variance
from typing import TYPE_CHECKING, Any, TypeAlias

from benchmarks import results_file
from benchmarks.markdown import provenance, table, us
from pytest_gpuperf.json_files import write_files
from pytest_gpuperf.records import Environment, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCHEMA = 1
SETS, ROUNDS = 6, 3
BUDGET_S = 0.1
"""The blocks of CUPTI, of which these times are, are all taken whatever the budget."""
APART_BYTES = 3 << 20
"""Left unused between two sets, so that the next begins elsewhere in its page."""
CONDITIONS = ("hot", "cold")

Times: TypeAlias = "tuple[tuple[float, ...], ...]"
"""Microseconds a call of each set, in each round."""


class Results(Record, frozen=True, kw_only=True):
    """All of a run."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment
    kernels: dict[str, dict[str, Times]]
    """By kernel and condition."""


def spreads_pct(times: Times) -> tuple[float, float]:
    """Standard deviations of a time on the same tensors and, beyond that, from set to set, in per cent.

    The estimates of a one-way analysis of variance with random effects (Searle, Casella and McCulloch,
    Variance Components, 1992, section 3.5).
    """
    mean = fmean(fmean(one) for one in times)
    within = fmean(variance(one) for one in times)
    between = max(0.0, variance([fmean(one) for one in times]) - within / len(times[0]))
    return 100 * math.sqrt(within) / mean, 100 * math.sqrt(between) / mean


def source(results: Results) -> str:
    """What it was measured on."""
    return f"{provenance(results.environment, results.date)}.\n"


def spread_table(results: Results) -> str:
    """A row for each kernel."""
    titles = ["kernel"]
    for condition in CONDITIONS:
        titles += [f"{condition}, µs", "same tensors, SD %", "memory, SD %"]
    return table(titles, [(kernel, *_cells(found)) for kernel, found in results.kernels.items()])


def _cells(found: dict[str, Times]) -> Iterator[str]:
    for condition in CONDITIONS:
        times = found[condition]
        yield us(fmean(fmean(one) for one in times))
        yield from (f"{spread:.2f}" for spread in spreads_pct(times))


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)


def measure() -> Results:
    """Time the kernels on the current device.

    Raises:
        CuptiError: CUPTI cannot record.
    """
    import torch

    from benchmarks.children import ROOT
    from pytest_gpuperf.cupti.binding import CuptiError
    from pytest_gpuperf.device.conditions import Nvml
    from pytest_gpuperf.device.environment import environment
    from pytest_gpuperf.device.gpu import gpu_info
    from pytest_gpuperf.timing.timer import Timer

    gpu = gpu_info()
    nvml = Nvml(gpu.uuid)
    timer = Timer(gpu.l2_bytes, BUDGET_S, nvml.conditions, max_sm_clock_mhz=nvml.max_sm_clock_mhz)

    def time_us(fn: Callable[[], Any], condition: str) -> float:
        timing = timer.time(fn, mode=condition)
        if timing.not_recorded or not timing.cupti_us:
            raise CuptiError(timing.not_recorded or "the kernel is too long for CUPTI to record it")
        return timing.cupti_us

    torch.manual_seed(0)
    kernels: dict[str, dict[str, Times]] = {}
    for kernel, make in _makers().items():
        calls, apart = [], []
        for _ in range(SETS):
            # Or the allocator would cut them from one piece.
            torch.cuda.empty_cache()
            calls.append(make())
            apart.append(torch.empty(APART_BYTES, dtype=torch.int8, device="cuda"))
        kernels[kernel] = {}
        for condition in CONDITIONS:
            rounds = [[time_us(fn, condition) for fn in calls] for _ in range(ROUNDS)]
            kernels[kernel][condition] = tuple(zip(*rounds, strict=True))
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Results(schema=SCHEMA, date=date, environment=environment(gpu, ROOT, ""), kernels=kernels)


def _makers() -> dict[str, Callable[[], Callable[[], Any]]]:
    """Each makes the tensors of a call, its output among them, when it is called."""
    import torch

    def matrix(size: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.randn(size, size, device="cuda", dtype=dtype)

    def square(size: int) -> Callable[[], Any]:
        x = matrix(size, torch.float32)
        return partial(torch.square, x, out=torch.empty_like(x))

    def matmul(size: int) -> Callable[[], Any]:
        a, b = (matrix(size, torch.bfloat16) for _ in range(2))
        return partial(torch.mm, a, b, out=torch.empty_like(a))

    def softmax(size: int) -> Callable[[], Any]:
        x = matrix(size, torch.float32)
        return partial(torch.softmax, x, -1, out=torch.empty_like(x))

    return {
        **{f"square {size}²": partial(square, size) for size in (64, 256, 1024, 2048)},
        **{f"matmul bf16 {size}": partial(matmul, size) for size in (512, 1024)},
        "softmax 1024²": partial(softmax, 1024),
    }


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.placement",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, dest="command")
    commands.add_parser("measure").add_argument("--out", type=Path, required=True, help="JSON file")
    commands.add_parser("table").add_argument("file", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "measure":
        results = measure()
        write_files({arguments.out: results_file.encode(results)})
    else:
        results = read(arguments.file)
    print(source(results), spread_table(results), sep="\n")


if __name__ == "__main__":
    main()
