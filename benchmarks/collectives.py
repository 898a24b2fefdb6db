"""Compare times of collectives with those of nccl-tests, and of a plain loop in their manner.

python -m benchmarks.collectives measure --out FILE --nccl-tests FOLDER    # on several GPUs
python -m benchmarks.collectives table FILE                                # anywhere

nccl-tests and the loop run the calls back to back and divide the host's time by their number. This plugin
times each call by itself, from a barrier to the end of the slowest rank. FOLDER has `all_reduce_perf` and its
like; without it only the loop is compared.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from benchmarks import results_file
from benchmarks.markdown import provenance, table, us
from pytest_gpuperf.records import Environment, Record
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.records.ranks import BUS_FACTORS, Collective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.ranks.team import Team

SCHEMA = 1
KINDS: tuple[Collective, ...] = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
SIZES = tuple(2**20 * mib for mib in (1, 16, 256))
ROUNDS = 3
WARM_UP_CALLS, CALLS = 5, 20
"""The defaults of nccl-tests."""
LIMIT_S = 120
SEED = 1
BUDGET_S = 0.5


class Times(Record, frozen=True, kw_only=True):
    """Times of one collective at one size, in microseconds a call, one of each round."""

    collective: Collective
    bytes: int
    """Size by nccl-tests: the larger buffer of a rank."""
    plugin_us: tuple[float, ...] = ()
    skew_us: tuple[float, ...] = ()
    """Slowest less fastest rank, by this plugin."""
    loop_us: tuple[float, ...] = ()
    nccl_tests_us: tuple[float, ...] = ()


class Results(Record, frozen=True, kw_only=True):
    """Results of one run of the benchmark."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment
    world: int
    """Number of GPUs."""
    times: tuple[Times, ...]


def source(results: Results) -> str:
    """Return the GPUs, the versions and the date."""
    return f"{results.world} x {provenance(results.environment, results.date)}.\n"


def bus_table(results: Results) -> str:
    """Format a row for each collective and size: bus bandwidths, and the difference of the plugin's."""
    # The loop in Python stands in for nccl-tests if these are missing.
    with_nccl_tests = all(one.nccl_tests_us for one in results.times)
    other = "nccl-tests" if with_nccl_tests else "loop"
    titles = ("collective", "MiB", "µs", "skew, µs", "plugin, GB/s", f"{other}, GB/s")
    rows = []
    for one in results.times:
        plugin, theirs = (
            _bus_gb_per_s(one, results.world, times)
            for times in (one.plugin_us, one.nccl_tests_us if with_nccl_tests else one.loop_us)
        )
        times = us(median(one.plugin_us)), us(median(one.skew_us))
        shown = f"{plugin:.1f}", f"{theirs:.1f} ({100 * (plugin / theirs - 1):+.1f} %)"
        rows.append((one.collective, f"{one.bytes / 2**20:.0f}", *times, *shown))
    return table(titles, rows)


def _bus_gb_per_s(one: Times, world: int, times_us: Sequence[float]) -> float:
    """Return the bus bandwidth of the median time."""
    return BUS_FACTORS[one.collective](world) * one.bytes / median(times_us) / 1e3


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)


def measure(world: int, nccl_tests: Path | None, rounds: int) -> Results:
    """Time all collectives by all methods, in turn."""
    from benchmarks.children import ROOT, say
    from pytest_gpuperf.features.ranks.team import Team
    from pytest_gpuperf.measure.device.environment import environment
    from pytest_gpuperf.measure.device.gpu_identity import gpu_info

    cases = [(kind, size) for kind in KINDS for size in SIZES]
    found: dict[tuple[Collective, int], dict[str, list[float]]] = {
        case: {"plugin_us": [], "skew_us": [], "loop_us": [], "nccl_tests_us": []} for case in cases
    }
    team = Team(world, silence_s=LIMIT_S)
    try:
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for case in cases:
                time_us, skew_us = _by_plugin(team, *case)
                found[case]["plugin_us"].append(time_us)
                found[case]["skew_us"].append(skew_us)
                if nccl_tests is not None:
                    found[case]["nccl_tests_us"].append(_by_nccl_tests(nccl_tests, world, *case))
            for case, time_us in zip(cases, _by_loop(world, cases), strict=True):
                found[case]["loop_us"].append(time_us)
    finally:
        team.end()
    times = tuple(
        Times(collective=kind, bytes=size, **{name: tuple(some) for name, some in found[kind, size].items()})
        for kind, size in cases
    )
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    where = environment(gpu_info(), ROOT, "")
    return Results(schema=SCHEMA, date=date, environment=where, world=world, times=times)


def _by_plugin(team: Team, kind: Collective, size: int) -> tuple[float, float]:
    """Return time and skew."""
    from pytest_gpuperf.features.ranks.aggregation import timing_of
    from pytest_gpuperf.features.ranks.callable_transfer import packed
    from pytest_gpuperf.features.ranks.messages import Time
    from suites.kernels.collectives import COLLECTIVES, buffers

    work = packed({"fn": COLLECTIVES[kind], "inputs": partial(buffers, kind, size)}, SEED)
    timing = timing_of(team.ask(Time(work, BUDGET_S)), on_gpu=True, collective=kind, bytes=size, flops=0)
    return round(timing.time_us, 3), round(timing.skew_us or 0.0, 3)


def _by_nccl_tests(folder: Path, world: int, kind: Collective, size: int) -> float:
    name = "alltoall_perf" if kind == "all_to_all" else f"{kind}_perf"
    options = f"-b {size} -e {size} -g {world} -w {WARM_UP_CALLS} -n {CALLS} -c 0".split()
    command = [str(folder / name), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return time_printed(done.stdout, size, in_place=kind == "all_reduce")


def time_printed(output: str, size: int, *, in_place: bool) -> float:
    """Return the time in the table of nccl-tests, in microseconds.

    Args:
        output: Printed by one of its programs.
        size: The bytes of the row.
        in_place: True for the second of the two times.

    Raises:
        ValueError: The row does not exist.
    """
    for line in output.splitlines():
        fields = line.split()
        if len(fields) >= 10 and fields[0] == str(size):
            return float(fields[9 if in_place else 5])
    raise ValueError(f"nccl-tests printed no row of {size} bytes:\n{output[-2000:]}")


def _by_loop(world: int, cases: Sequence[tuple[Collective, int]]) -> list[float]:
    """Return the time of each case by a plain loop, in processes of its own."""
    from torch.multiprocessing.spawn import spawn

    with tempfile.TemporaryDirectory() as folder:
        spawn(loop, (world, "nccl", folder, list(cases)), nprocs=world)  # type: ignore[no-untyped-call]
        ranks = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(world)]
    # nccl-tests report the mean over the ranks.
    return [round(fmean(times), 3) for times in zip(*ranks, strict=True)]


def loop(rank: int, world: int, backend: str, folder: str, cases: Sequence[tuple[Collective, int]]) -> None:
    """Time the cases on one rank as nccl-tests do, and write the microseconds of each to a file."""
    import torch
    from torch import distributed

    from suites.kernels.collectives import COLLECTIVES, buffers

    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    distributed.init_process_group(backend, f"file://{folder}/store", rank=rank, world_size=world)
    times = []
    for kind, size in cases:
        with device:
            arguments = buffers(kind, size, rank, world, SEED)
        for _ in range(WARM_UP_CALLS):
            COLLECTIVES[kind](*arguments)
        distributed.barrier()
        _wait(backend)
        begin = time.perf_counter()
        for _ in range(CALLS):
            COLLECTIVES[kind](*arguments)
        _wait(backend)
        times.append((time.perf_counter() - begin) * 1e6 / CALLS)
        distributed.barrier()
    (Path(folder) / f"{rank}.json").write_text(json.dumps(times))
    distributed.destroy_process_group()


def _wait(backend: str) -> None:
    import torch

    if backend == "nccl":
        torch.cuda.synchronize()


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.collectives",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, dest="command")
    measuring = commands.add_parser("measure")
    measuring.add_argument("--out", type=Path, required=True, help="JSON file")
    measuring.add_argument("--gpus", type=int, default=2, help="number of GPUs (default: 2)")
    measuring.add_argument("--nccl-tests", type=Path, help="folder of their programs")
    measuring.add_argument("--rounds", type=int, default=ROUNDS, help=f"default: {ROUNDS}")
    commands.add_parser("table").add_argument("file", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "measure":
        results = measure(arguments.gpus, arguments.nccl_tests, arguments.rounds)
        write_files({arguments.out: results_file.encode(results)})
    else:
        results = read(arguments.file)
    print(source(results), bus_table(results), sep="\n")


if __name__ == "__main__":
    main()
