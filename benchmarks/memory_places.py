"""Compare times of short calls between processes: at one place in memory, and at many.

python -m benchmarks.memory_places FILE [--minutes M]    # on a GPU
python -m benchmarks.memory_places FILE --table          # anywhere

Every second process holds some memory first, so that its tensors lie elsewhere, as behind other tests.
"""

from __future__ import annotations

import argparse
import datetime
import time
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

import msgspec

from benchmarks import results_file
from benchmarks.children import ROOT, ChildError, end_in_order_when_told, in_turn, say
from benchmarks.markdown import provenance, table, us
from pytest_gpuperf.records import Environment, Record
from pytest_gpuperf.records.files import write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import torch

    from benchmarks.children import Parent

SCHEMA = 1
BUDGET_S = 0.3
PROCESS_S = 60.0
MOST_PROCESSES = 40
MOST_HELD, MOST_HELD_MB = 8, 300


class Sample(Record, frozen=True):
    """Times of a call in one process, in µs."""

    call: str
    one_place_us: float
    many_places_us: float


class Results(Record, frozen=True, kw_only=True):
    """Samples of the processes of one GPU."""

    schema: int
    date: str
    environment: Environment
    processes: tuple[tuple[Sample, ...], ...]


def calls() -> dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]:
    """Return short calls and their arguments: together with their outputs they take these sizes."""
    import torch

    def floats(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda")

    def halves(*shape: int) -> torch.Tensor:
        return floats(*shape).to(torch.bfloat16)

    return {
        "abs, 2 MB": (torch.abs, (floats(512, 512),)),
        "square, 16 MB": (torch.square, (floats(1024, 2048),)),
        "add, 24 MB": (torch.add, (floats(1024, 2048), floats(1024, 2048))),
        "abs, 32 MB": (torch.abs, (floats(2048, 2048),)),
        "softmax, 32 MB": (partial(torch.softmax, dim=-1), (floats(4096, 1024),)),
        "layer norm, 16 MB": (
            lambda x: torch.nn.functional.layer_norm(x, (1024,)),
            (halves(4096, 1024),),
        ),
        "product, 6 MB": (torch.matmul, (halves(1024, 1024), halves(1024, 1024))),
        "transpose, 32 MB": (lambda x: x.T.contiguous(), (floats(2048, 2048),)),
    }


def process(parent: Parent, number: str) -> None:
    """Time each call in this process."""
    import torch

    from pytest_gpuperf.measure.device.conditions import Nvml
    from pytest_gpuperf.measure.device.gpu_identity import gpu_info
    from pytest_gpuperf.measure.reachable_tensors import CallElsewhere
    from pytest_gpuperf.measure.timing.timer import Timer
    from pytest_gpuperf.records.call import Call

    parent.wait_for_turn()
    rng = Random(int(number))
    held = [
        torch.empty(rng.randrange(1, MOST_HELD_MB) << 20, dtype=torch.int8, device="cuda")
        for _ in range(rng.randrange(MOST_HELD) if int(number) % 2 else 0)
    ]
    gpu = gpu_info()
    nvml = Nvml(gpu.uuid)
    timer = Timer(gpu.l2_bytes, BUDGET_S, nvml.conditions, nvml.max_sm_clock_mhz)
    for name, (fn, args) in calls().items():
        call = Call(name, "main", fn, args)
        one, many = (
            timer.time(call, mode="hot", elsewhere=elsewhere).us_by("cupti")
            for elsewhere in (None, partial(CallElsewhere, call))
        )
        if one is not None and many is not None:
            parent.tell(msgspec.to_builtins(Sample(name, round(one, 4), round(many, 4))))
    del held


def measure(path: Path, minutes: float) -> Results:
    """Run fresh processes until the time is up, and write the file after each."""
    from pytest_gpuperf.measure.device.environment import environment
    from pytest_gpuperf.measure.device.gpu_identity import gpu_info

    found = Results(
        schema=SCHEMA,
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        environment=environment(gpu_info(), ROOT, ""),
        processes=(),
    )
    begin = time.monotonic()
    wanted = [("benchmarks.memory_places:process", [str(number)]) for number in range(MOST_PROCESSES)]
    for child in in_turn(wanted):
        if time.monotonic() - begin > 60 * minutes:
            break
        try:
            samples = tuple(msgspec.convert(one, Sample) for one in child.messages(PROCESS_S))
        except ChildError as error:
            say(f"a process failed: {error}")
            continue
        found = msgspec.structs.replace(found, processes=(*found.processes, samples))
        write_files({path: results_file.encode(found)})
    return found


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)


def spreads_pct(results: Results) -> dict[str, tuple[float, float, float]]:
    """Return each call's time in µs, and the standard deviation between processes at one and many places."""
    found: dict[str, list[Sample]] = {}
    for one in (one for samples in results.processes for one in samples):
        found.setdefault(one.call, []).append(one)

    def spread(times_us: Sequence[float]) -> float:
        return 100 * stdev(times_us) / fmean(times_us)

    return {
        call: (
            median(one.many_places_us for one in samples),
            spread([one.one_place_us for one in samples]),
            spread([one.many_places_us for one in samples]),
        )
        for call, samples in found.items()
        if len(samples) > 1
    }


def report(results: Results) -> str:
    """Format a row for each call."""
    titles = ("call, with its output", "µs", "at one place, %", "at many places, %")
    rows = [
        (call, us(time_us), *(f"{one:.2f}" for one in spreads))
        for call, (time_us, *spreads) in spreads_pct(results).items()
    ]
    return table(titles, rows)


def source(results: Results) -> str:
    """Return the number of processes, the GPU, the versions and the date."""
    return f"{len(results.processes)} processes; {provenance(results.environment, results.date)}.\n"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.memory_places",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--table", action="store_true", help="print the table of a file")
    given = parser.parse_args()
    if not given.table:
        end_in_order_when_told()
    found = read(given.file) if given.table else measure(given.file, given.minutes)
    print(report(found) + source(found))


if __name__ == "__main__":
    main()
