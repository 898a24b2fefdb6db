"""Measure how far times spread with the GPU's previous work, as measured and at one SM clock.

python -m benchmarks.clock_spread measure --out FILE    # on a GPU
python -m benchmarks.clock_spread table FILE            # anywhere

Each kernel is timed once, as in a test, which fits its clock model. Then its batches run after a pause, back
to back and after a burn, in turn. The fit, which has seen none of these batches, brings the median of each of
the three states to one clock.
"""

from __future__ import annotations

import argparse
import datetime
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import results_file
from benchmarks.markdown import provenance, table, us
from pytest_gpuperf.records import ClockModel, Environment, Record
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.statistics.clock_model import normalise

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.measure.timing.batch import Batch, Block

SCHEMA = 1
ROUNDS = 3
BLOCKS = 4
"""Blocks of each state in each round."""
PAUSE_S = BURN_S = 0.25
SUSTAINED_S = 0.3
STATES = ("after a pause", "back to back", "after a burn")


class Spread(Record, frozen=True, kw_only=True):
    """Times of one kernel."""

    model: ClockModel | None
    """Clock model fitted by its test; None if unknown."""
    blocks: dict[str, tuple[tuple[float, float], ...]]
    """Microseconds a call and mean SM clock in MHz of each block, by state."""

    def times_us(self) -> dict[str, float]:
        """Return the median of each state, as measured."""
        return {state: median(us for us, _ in blocks) for state, blocks in self.blocks.items()}

    def normalised_us(self) -> dict[str, float]:
        """Return the median of each state at the clock of the model, if there is one."""
        model = self.model
        if model is None:
            return self.times_us()
        return {
            state: median(normalise(us, mhz, model) for us, mhz in blocks)
            for state, blocks in self.blocks.items()
        }


class Results(Record, frozen=True, kw_only=True):
    """Results of one run of the benchmark."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment
    kernels: dict[str, Spread]


def spread_pct(times_us: dict[str, float]) -> float:
    """Return the range from the fastest to the slowest state, in % of the fastest."""
    return 100 * (max(times_us.values()) / min(times_us.values()) - 1)


def source(results: Results) -> str:
    """Return the GPU, the versions and the date."""
    return f"{provenance(results.environment, results.date)}.\n"


def summary(results: Results) -> str:
    """Return the largest spreads as one sentence, and the machine as another."""
    kernels = [kernel for kernel in results.kernels.values() if kernel.model]
    as_measured = max(spread_pct(kernel.times_us()) for kernel in kernels)
    at_one_clock = max(spread_pct(kernel.normalised_us()) for kernel in kernels)
    return (
        f"After a pause, back to back and after a load, times of {len(kernels)} kernels differ by up to "
        f"{as_measured:.1f} % as measured, and by up to {at_one_clock:.2f} % at one clock.\n{source(results)}"
    )


def spread_table(results: Results) -> str:
    """Format a row for each kernel."""
    titles = (
        "kernel",
        *(f"{state}, µs @ MHz" for state in STATES),
        "spread %",
        "at one clock %",
        "share of the clock",
    )
    rows = []
    for name, kernel in results.kernels.items():
        times = kernel.times_us()
        clocks = {state: median(mhz for _, mhz in blocks) for state, blocks in kernel.blocks.items()}
        model = kernel.model
        rows.append(
            (
                name,
                *(f"{us(times[state])} @ {clocks[state]:.0f}" for state in STATES),
                f"{spread_pct(times):.1f}",
                f"{spread_pct(kernel.normalised_us()):.2f}" if model else "—",
                f"{model.sm_clock_share:.2f} ± {model.share_error:.2f}" if model else "unknown",
            )
        )
    return table(titles, rows)


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)


def measure() -> Results:
    """Time the kernels on the current device."""
    from benchmarks.children import ROOT
    from benchmarks.timing_accuracy.kernels import matmul, softmax, square
    from pytest_gpuperf.measure.device.conditions import Nvml
    from pytest_gpuperf.measure.device.environment import environment
    from pytest_gpuperf.measure.device.gpu_identity import gpu_info
    from pytest_gpuperf.measure.timing.sm_clock import Burn
    from pytest_gpuperf.measure.timing.timer import Timer

    gpu = gpu_info()
    nvml = Nvml(gpu.uuid)
    timer = Timer(gpu.l2_bytes, 1.0, nvml.conditions, max_sm_clock_mhz=nvml.max_sm_clock_mhz)
    burn = Burn()
    makers = {
        **{f"matmul bf16 {size}": partial(matmul, size) for size in (8192, 4096, 2048)},
        "softmax 8192²": partial(softmax, 8192),
        "square 8192²": partial(square, 8192),
    }
    kernels = {}
    for name, make in makers.items():
        fn = make()
        model = timer.time(fn, mode="hot").clock_model
        prepared = timer.prepare(fn, "hot")
        prepared.warm_up()
        kernels[name] = Spread(model=model, blocks=_blocks(prepared, burn))
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Results(schema=SCHEMA, date=date, environment=environment(gpu, ROOT, ""), kernels=kernels)


def _blocks(prepared: Batch, burn: Callable[[float], None]) -> dict[str, tuple[tuple[float, float], ...]]:
    found: dict[str, list[Block]] = {state: [] for state in STATES}
    for _ in range(ROUNDS):
        for state in STATES:
            if state == "after a pause":
                time.sleep(PAUSE_S)
            elif state == "after a burn":
                burn(BURN_S)
            else:
                end = time.perf_counter() + SUSTAINED_S
                while time.perf_counter() < end:
                    prepared.run()
            # The clock changes during the first block.
            prepared.run()
            found[state] += [prepared.run() for _ in range(BLOCKS)]
    return {
        state: tuple((round(block.time_us, 4), round(block.sm_clock_mhz, 1)) for block in blocks)
        for state, blocks in found.items()
    }


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.clock_spread",
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
