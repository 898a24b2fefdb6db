"""Instruments that measure on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pytest_gpuperf import correctness
from pytest_gpuperf.item_state import check_regex
from pytest_gpuperf.timing.timer import Timer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.counters.profiling_pass import ProfilingPass
    from pytest_gpuperf.instruments.base import Call, Reference
    from pytest_gpuperf.records import Conditions, Correctness, Profile, StaticKernel, Timing, WarmUp


class LiveInstruments:
    """Measures in this process; counters come from the profiling pass that ran before.

    Args:
        counters: Answers for the counters of each call.
        l2_bytes: Size of the GPU's L2, in bytes.
        budget_s: Seconds that the blocks of one timing may take, by the wall clock.
        conditions: Reads the state of the GPU.
    """

    def __init__(
        self,
        counters: ProfilingPass,
        l2_bytes: int,
        budget_s: float,
        conditions: Callable[[], Conditions | None],
    ) -> None:
        self._counters = counters
        self._timer = Timer(l2_bytes, budget_s, conditions)

    @property
    def device(self) -> torch.device:
        """The current CUDA device."""
        return torch.device("cuda", torch.cuda.current_device())

    def check(self, call: Call, reference: Reference) -> Correctness:
        """Run the call on poisoned memory and compare."""
        return correctness.check(
            call.fn,
            call.args,
            dict(call.kwargs),
            expected=reference.expected,
            rtol=reference.rtol,
            atol=reference.atol,
            equal_nan=reference.equal_nan,
            mutates=reference.mutates,
        )

    def warm_up(self, call: Call) -> WarmUp:
        """Run the call until its time is steady."""
        return self._timer.warm_up(call)

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        """Time the call with CUDA events."""
        return self._timer.time(call, mode=mode, bytes=bytes, flops=flops)

    def profile(self, call: Call, *, kernels: str | None, metrics: tuple[str, ...]) -> Profile:
        """Look the call up in the profiling pass's report."""
        if kernels is not None:
            check_regex(kernels, f"for {call}")
        return self._counters.lookup(call, kernels, metrics, lambda: launched_kernels(call))

    def static(self, call: Call) -> dict[str, StaticKernel]:
        """Compile."""
        kernels: dict[str, StaticKernel] = call()
        return kernels


def launched_kernels(call: Call) -> list[str]:
    """Names of the kernels that a call launches, in order, as torch's profiler sees them."""
    from torch.autograd import DeviceType  # type: ignore[attr-defined]
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    return [
        event.name
        for event in profiler.events()
        if event.device_type == DeviceType.CUDA and not event.name.startswith(("Memcpy", "Memset"))
    ]
