"""Try to read a counter: whether a machine lets a process do so is best asked, not derived from its kind."""

from __future__ import annotations

import torch

from pytest_gpuperf.measure.cupti.libcupti import CuptiError, cupti
from pytest_gpuperf.measure.cupti.range_profiler import RangeProfiler, why_no_range_profiler

CYCLES = "sm__cycles_elapsed.max"


def read_one() -> None:
    """Read a counter of one small kernel on the current GPU.

    Raises:
        CuptiError: CUPTI is missing, or refuses.
    """
    if why := why_no_range_profiler():
        raise CuptiError(why)
    number = torch.zeros(1, device="cuda")

    def call() -> None:
        number.add_(1)

    call()
    profiler = RangeProfiler(cupti())
    try:
        if known := profiler.known([CYCLES]):
            profiler.read(call, known, 1)
    finally:
        profiler.let_go()
