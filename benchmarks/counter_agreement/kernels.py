"""Profile kernels of many kinds by CUPTI in this process, or launch them under ncu.

ncu … python -m benchmarks.counter_agreement.kernels launch
python -m benchmarks.counter_agreement.kernels profile ROWS.jsonl [FIRST]
"""

from __future__ import annotations

import faulthandler
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from benchmarks.counter_agreement.results import REPEATS, Reading
from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
from pytest_gpuperf.measure.device.gpu_identity import gpu_info
from pytest_gpuperf.metrics.chips import chip_of
from pytest_gpuperf.metrics.presets import PRESETS
from pytest_gpuperf.records.call import Call, Selection
from suites.kernels.gemm import TILES, matmul_triton
from suites.kernels.square import square_triton

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.records import KernelProfile, Profile

METRICS = tuple(
    dict.fromkeys(
        (*PRESETS["sol"], *PRESETS["occupancy"], *PRESETS["stalls"], "dram_bytes", "shared_memory.dynamic")
    )
)
"""Speed of light, occupancy, all stalls, and DRAM traffic, which needs no further pass."""
ONE_KERNEL_S = 20


def calls() -> dict[str, Callable[[], object]]:
    """Return the callables by name; the longest kernel of each is compared."""
    torch.manual_seed(0)
    x = torch.randn(8192, 4096, device="cuda")
    small = torch.randn(1823, 781, device="cuda")
    half = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    single = torch.randn(2048, 2048, device="cuda")
    weight = torch.ones(4096, device="cuda")
    rows = torch.randint(0, 8192, (8192,), device="cuda")
    y = torch.empty_like(half, dtype=torch.float32)
    return {
        "square_torch": lambda: torch.square(x),
        "square_triton": lambda: square_triton(x),
        "square_small": lambda: torch.square(small),
        "cast": lambda: y.copy_(half),
        "transpose": lambda: x.t().contiguous(),
        "gemm_bf16": lambda: half @ half,
        "gemm_triton": lambda: matmul_triton(half, half, TILES[1]),
        "gemm_fp32": lambda: single @ single,
        "softmax": lambda: torch.softmax(x, -1),
        "sum_rows": lambda: x.sum(-1),
        "layer_norm": lambda: torch.nn.functional.layer_norm(x, (4096,), weight, weight),
        "gather": lambda: x.index_select(0, rows),
        "entropy": lambda: torch.special.entr(x),
    }


def longest(kernels: tuple[KernelProfile, ...]) -> KernelProfile:
    """Return the kernel that took longest."""
    return max(kernels, key=lambda kernel: float(kernel.metrics["duration_us"]))


def launch() -> None:
    """Launch each call in a range of its name, for ncu."""
    for name, call in calls().items():
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        runtime.cudaProfilerStart()
        for _ in range(REPEATS):
            handle = torch.cuda.nvtx.range_start(name)
            call()
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_end(handle)
        runtime.cudaProfilerStop()


def reading(kernel: KernelProfile) -> Reading:
    """Return the part of a profile that the results keep."""
    return Reading(name=kernel.name, grid=kernel.grid, block=kernel.block, metrics=kernel.metrics)


def lookups(
    counters: CuptiCounters, call: Call, metrics: Sequence[str], *, apart: bool = False
) -> tuple[list[Profile], list[float]]:
    """Return profiles of a call, and the seconds of each.

    Args:
        counters: CUPTI's counters.
        call: The call.
        metrics: Short names.
        apart: Detach CUPTI after each profile, as after each `profile()` of a test.
    """
    found, seconds = [], []
    for _ in range(REPEATS):
        began = time.perf_counter()
        found.append(counters.lookup(call, Selection(), metrics))
        if apart:
            counters.let_go()
        seconds.append(time.perf_counter() - began)
    return found, seconds


def profile(path: Path, first: int) -> None:
    """Profile each call from index `first` on, and append a row of JSON for each.

    Args:
        path: The file of the rows.
        first: Index of the first call.
    """
    gpu = gpu_info()
    chip = chip_of(gpu.compute_capability)
    counters = CuptiCounters(gpu, chip.name if chip else "")
    for index, (name, fn) in enumerate(calls().items()):
        if index < first:
            continue
        row: dict[str, Any] = {"cupti": []}
        call = Call("counter_agreement", name, fn)
        faulthandler.dump_traceback_later(ONE_KERNEL_S, exit=True)
        try:
            found, row["cupti_seconds"] = lookups(counters, call, METRICS)
            row["cupti"] = [reading(longest(each.kernels)) for each in found]
            row["one_pass_seconds"] = lookups(counters, call, PRESETS["one-pass"])[1]
            counters.let_go()
            row["apart_seconds"] = lookups(counters, call, METRICS, apart=True)[1]
            row["one_pass_apart_seconds"] = lookups(counters, call, PRESETS["one-pass"], apart=True)[1]
            # Otherwise the first lookup of the next call would attach CUPTI.
            counters.lookup(call, Selection(), METRICS)
        except Exception:
            row["failure"] = traceback.format_exc()
        finally:
            faulthandler.cancel_dump_traceback_later()
            with path.open("ab") as stream:
                stream.write(msgspec.json.encode(row) + b"\n")


if __name__ == "__main__":
    faulthandler.enable()
    if sys.argv[1] == "launch":
        launch()
    else:
        first_call = int(sys.argv[3]) if len(sys.argv) > 3 else 0
        profile(Path(sys.argv[2]), first_call)
