"""Time the kernels with the plugin in a fresh process, then read their true durations.

Both use the same memory, because its place changes the time of a short kernel by more than the allowed error.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

import msgspec
import torch

from benchmarks.children import ROOT
from benchmarks.timing_accuracy.kernels import KERNELS
from benchmarks.timing_accuracy.results import Ours
from benchmarks.timing_accuracy.truth import durations
from pytest_gpuperf.measure.device.conditions import Nvml
from pytest_gpuperf.measure.device.environment import environment
from pytest_gpuperf.measure.device.gpu_identity import gpu_info
from pytest_gpuperf.measure.timing.timer import Timer
from pytest_gpuperf.settings.options import OPTIONS

if TYPE_CHECKING:
    from benchmarks.children import Parent

BUDGET_S = next(float(option.default) for option in OPTIONS if option.name == "budget")


def measure(parent: Parent, *modes: str) -> None:
    """Time every kernel in every mode; then read its true durations."""
    parent.wait_for_turn()
    torch.manual_seed(0)
    gpu = gpu_info()
    nvml = Nvml(gpu.uuid)
    parent.tell(
        {
            "environment": msgspec.to_builtins(environment(gpu, ROOT, "")),
            "max_sm_clock_mhz": nvml.max_sm_clock_mhz,
        }
    )
    timer = Timer(gpu.l2_bytes, BUDGET_S, nvml.conditions, max_sm_clock_mhz=nvml.max_sm_clock_mhz)
    calls = {kernel: make() for kernel, make in KERNELS.items()}
    for kernel, fn in calls.items():
        for mode in modes:
            begin = time.perf_counter()
            try:
                timing = timer.time(fn, mode=mode)
                found = Ours(
                    time_us=timing.time_us,
                    source=timing.source,
                    events_us=timing.us_by("events") or 0.0,
                    cupti_us=timing.us_by("cupti") or 0.0,
                    sm_clock_mhz=round(median(timing.blocks_mhz), 1) if timing.blocks_mhz else 0.0,
                    seconds=round(time.perf_counter() - begin, 2),
                )
            except Exception as error:
                found = Ours(failure=f"{type(error).__name__}: {error}")
            parent.tell({"kernel": kernel, "mode": mode, "found": msgspec.to_builtins(found)})
    for kernel, truth in durations(calls):
        parent.tell({"kernel": kernel, "truth": msgspec.to_builtins(truth)})
