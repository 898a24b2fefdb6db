"""Time short kernels in a fresh process, repeatedly on one piece of memory and on several pieces.

Differences between pieces beyond those between repetitions come from the placement of memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import torch

from benchmarks.timing_accuracy.kernels import KERNELS
from benchmarks.timing_accuracy.results import Placement
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.device.conditions import Nvml
from pytest_gpuperf.measure.device.gpu_identity import gpu_info
from pytest_gpuperf.measure.timing.timer import Timer

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.children import Parent

REPETITIONS, PIECES = 3, 6
BUDGET_S = 0.1
"""CUPTI takes all its blocks with any budget."""
APART_BYTES = 3 << 20
"""Unused bytes between two pieces, so that the next begins at another place in its page."""


def measure(parent: Parent) -> None:
    """Time every kernel that is timed by CUPTI, in both conditions."""
    parent.wait_for_turn()
    torch.manual_seed(0)
    gpu = gpu_info()
    nvml = Nvml(gpu.uuid)
    timer = Timer(gpu.l2_bytes, BUDGET_S, nvml.conditions, max_sm_clock_mhz=nvml.max_sm_clock_mhz)
    for kernel, make in KERNELS.items():
        fn = make()
        if timer.time(fn, mode="hot").source != "cupti":
            continue
        for condition in ("hot", "cold"):
            same = tuple(_time_us(timer, fn, condition) for _ in range(REPETITIONS))
            found = Placement(same_us=same, other_us=_elsewhere(timer, make, condition))
            parent.tell({"kernel": kernel, "condition": condition, "placement": msgspec.to_builtins(found)})


def _time_us(timer: Timer, fn: Callable[[], Any], condition: str) -> float:
    timing = timer.time(fn, mode=condition)
    time_us = timing.us_by("cupti")
    if time_us is None:
        raise CuptiError(timing.not_recorded)
    return time_us


def _elsewhere(timer: Timer, make: Callable[[], Callable[[], Any]], condition: str) -> tuple[float, ...]:
    kept: list[object] = []
    times = []
    for _ in range(PIECES):
        # Otherwise the allocator would return the same piece.
        torch.cuda.empty_cache()
        fn = make()
        times.append(_time_us(timer, fn, condition))
        kept += [fn, torch.empty(APART_BYTES, dtype=torch.int8, device="cuda")]
    return tuple(times)
