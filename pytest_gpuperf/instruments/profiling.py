"""Instruments of the child that runs under ncu: only `profile` does its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.counters.plan import Event, PassFolder
from pytest_gpuperf.records import Correctness, Profile, Timing, WarmUp
from pytest_gpuperf.timing.batch import elapsed_us, event

if TYPE_CHECKING:
    from pytest_gpuperf.instruments.base import Call, Reference

WARM_UP_CALLS = 3
"""Compilation and autotuning happen in the first, lazy initialisation in the next."""


class ProfilingInstruments:
    """Runs each profiled call once between cudaProfilerStart and Stop, inside a range of its name.

    Nothing that the other methods return is kept: the session that started this process measures
    correctness and time by itself, without a profiler.
    """

    def __init__(self, folder: PassFolder) -> None:
        self._folder = folder

    @property
    def device(self) -> torch.device:
        """The current CUDA device."""
        return torch.device("cuda", torch.cuda.current_device())

    def check(self, call: Call, reference: Reference) -> Correctness:  # noqa: ARG002
        """Nothing: correctness belongs to the session."""
        return Correctness(passed=True)

    def warm_up(self, call: Call) -> WarmUp:
        """A few calls."""
        for _ in range(WARM_UP_CALLS):
            call()
        torch.cuda.synchronize()
        return WarmUp(seconds=0.0, launches=WARM_UP_CALLS, steady=False)

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:  # noqa: ARG002
        """One event pair, so that a test that reads the time goes on."""
        call()
        start, end = event(), event()
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        time_us = elapsed_us(start, end)
        return Timing(
            mode="queued", time_us=time_us, spread_pct=0.0, blocks_us=(time_us,), calls_per_block=1,
            bytes=bytes, flops=flops,
        )  # fmt: skip

    def profile(self, call: Call, *, kernels: str | None, metrics: tuple[str, ...]) -> Profile:  # noqa: ARG002
        """Run the call once where ncu sees it."""
        self.warm_up(call)
        name = f"gpuperf:{call.nodeid}#{call.label}"
        runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        runtime.cudaProfilerStart()
        # Start/end ranges, unlike push/pop, hold what autograd's thread launches.
        handle = torch.cuda.nvtx.range_start(name)
        try:
            call()
            torch.cuda.synchronize()
        finally:
            torch.cuda.nvtx.range_end(handle)
            runtime.cudaProfilerStop()
        self._folder.tell(Event(call.nodeid, call.label, name))
        return Profile(regex=kernels or "", unavailable="read by the session")
