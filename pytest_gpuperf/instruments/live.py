"""Instruments that measure on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pytest_gpuperf import correctness
from pytest_gpuperf.cupti.activity import recorded
from pytest_gpuperf.item_state import check_regex

if TYPE_CHECKING:
    from pytest_gpuperf.counters.profiling_pass import ProfilingPass
    from pytest_gpuperf.instruments.base import Call, Reference
    from pytest_gpuperf.records import Correctness, Profile, Timing, WarmUp
    from pytest_gpuperf.timing.timer import Timer


class LiveInstruments:
    """Measures in this process; counters come from the profiling pass that ran before.

    Args:
        counters: Answers for the counters of each call.
        timer: Times on the current device.
    """

    def __init__(self, counters: ProfilingPass, timer: Timer) -> None:
        self._counters = counters
        self._timer = timer

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


def launched_kernels(call: Call) -> list[str]:
    """Names of the kernels that a call launches, in order, as CUPTI sees them.

    Raises:
        CuptiError: It cannot.
    """
    call()
    with recorded() as activities:
        call()
    return [activity.name for activity in activities if activity.name]
