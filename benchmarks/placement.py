"""Measure how much of the noise between sessions comes from where tensors lie in memory.

python -m benchmarks.placement sample --out FILE [--minutes M]    # on a GPU
python -m benchmarks.placement table FILE                         # anywhere

Each fresh process times every kernel several times on the same tensors, then as often on new ones, while the
earlier ones stay allocated, so that each set lies at another place.
"""

from __future__ import annotations

import argparse
import datetime
import time
from contextlib import closing
from pathlib import Path
from random import Random
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import msgspec

from benchmarks.children import ROOT, ChildError, end_in_order_when_told, in_turn, say
from benchmarks.gate_power.samples import Began
from benchmarks.markdown import provenance, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.children import Parent

TIMES = 6
"""Number of times of each kernel in each process, of each kind."""
BUDGET_S = 0.05
MOST = 100
"""Processes at most."""


class Sample(msgspec.Struct, frozen=True, kw_only=True, tag="sample"):
    """Times of one kernel in one process, in microseconds a call."""

    process: int
    card: str
    kernel: str
    same_us: tuple[float, ...]
    """On the same tensors."""
    placed_us: tuple[float, ...]
    """On new tensors each time; the first ones are those of `same_us`."""
    clocks_mhz: tuple[float, ...]
    """Mean SM clock of each time of `placed_us`."""


def child(parent: Parent, process: str) -> None:
    """Time each kernel in this process's own order."""
    parent.wait_for_turn()
    import torch

    from benchmarks.gate_power.kernels import KERNELS, POWER_LIMITED
    from pytest_gpuperf.measure.device.conditions import Nvml
    from pytest_gpuperf.measure.device.environment import environment
    from pytest_gpuperf.measure.device.gpu import gpu_info
    from pytest_gpuperf.measure.timing.timer import Timer

    torch.manual_seed(0)
    gpu = gpu_info()
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    parent.tell(msgspec.to_builtins(Began(date=date, environment=environment(gpu, ROOT, ""))))
    nvml = Nvml(gpu.uuid)
    timer = Timer(gpu.l2_bytes, BUDGET_S, nvml.conditions, max_sm_clock_mhz=nvml.max_sm_clock_mhz)
    kernels = [kernel for kernel in KERNELS if kernel.name not in POWER_LIMITED]
    Random(int(process)).shuffle(kernels)
    for kernel in kernels:
        calls = [kernel.build(gpu.multiprocessors, kernel.count)(kernel.count) for _ in range(TIMES)]
        timer.time(calls[0], mode="hot")
        same = [timer.time(calls[0], mode="hot") for _ in calls]
        placed = [timer.time(call, mode="hot") for call in calls]
        sample = Sample(
            process=int(process),
            card=gpu.uuid,
            kernel=kernel.name,
            same_us=tuple(timing.time_us for timing in same),
            placed_us=tuple(timing.time_us for timing in placed),
            clocks_mhz=tuple(fmean(timing.blocks_mhz or (0.0,)) for timing in placed),
        )
        parent.tell(msgspec.to_builtins(sample))
        del calls
        torch.cuda.empty_cache()


def sample(out: Path, seconds: float) -> None:
    """Run fresh processes until the time is up."""
    end, longest = time.monotonic() + seconds, 0.0
    children = in_turn([("benchmarks.placement:child", [str(process)]) for process in range(MOST)])
    with out.open("wb") as file, closing(children):
        for child in children:
            begin = time.monotonic()
            try:
                for message in child.messages(end - begin):
                    file.write(msgspec.json.encode(message) + b"\n")
                    file.flush()
            except ChildError as error:
                say(str(error))
            longest = max(longest, time.monotonic() - begin)
            say(f"a process took {time.monotonic() - begin:.0f} s")
            if time.monotonic() + longest > end:
                break


def read(path: Path) -> list[Began | Sample]:
    """Read the lines of a file."""
    return [msgspec.json.decode(line, type=Began | Sample) for line in path.read_bytes().splitlines()]


def report(lines: Sequence[Began | Sample]) -> str:
    """Format a row for each kernel: standard deviations within and between processes, in %."""
    began = next(line for line in lines if isinstance(line, Began))
    samples = [line for line in lines if isinstance(line, Sample)]
    rows = []
    for kernel in dict.fromkeys(sample.kernel for sample in samples):
        found = [sample for sample in samples if sample.kernel == kernel]
        shown = (
            fmean(_sd_pct(sample.same_us) for sample in found),
            fmean(_sd_pct(sample.placed_us) for sample in found),
            _sd_pct([sample.same_us[0] for sample in found]),
            _sd_pct([fmean(sample.same_us) for sample in found]),
            _sd_pct([fmean(sample.placed_us) for sample in found]),
        )
        rows.append([kernel, str(len(found)), *(f"{value:.2f}" for value in shown)])
    titles = (
        "kernel",
        "processes",
        "within, same tensors",
        "within, other tensors",
        "between, one time",
        f"between, mean of {TIMES}, same tensors",
        f"between, mean of {TIMES}, other tensors",
    )
    return f"{provenance(began.environment, began.date)}.\n\n{table(titles, rows)}"


def _sd_pct(times: Sequence[float]) -> float:
    return 100 * stdev(times) / fmean(times)


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.placement", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, dest="command")
    command = commands.add_parser("sample")
    command.add_argument("--out", type=Path, required=True, help="NAME.jsonl")
    command.add_argument("--minutes", type=float, default=4.0)
    command = commands.add_parser("table")
    command.add_argument("file", type=Path)
    given = parser.parse_args()
    if given.command == "table":
        print(report(read(given.file)))
        return
    end_in_order_when_told()
    sample(given.out, 60 * given.minutes)


if __name__ == "__main__":
    main()
