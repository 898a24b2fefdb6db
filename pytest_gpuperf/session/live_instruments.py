"""Instruments that measure on the GPU."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING

import torch
from msgspec.structs import replace

from pytest_gpuperf.measure import correctness
from pytest_gpuperf.measure.cupti.activity import recorded
from pytest_gpuperf.records.selection import check_regex

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
    from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass
    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.measure.timing.timer import Timer
    from pytest_gpuperf.records import Correctness, Profile, StaticKernel, Timing, Trace, WarmUp
    from pytest_gpuperf.records.call import Call, Reference
    from pytest_gpuperf.records.selection import Selection

LOOKS = 3
"""Of a time that differs from its baseline: a disturbance is gone by then, a change is not."""


class LiveInstruments:
    """Measures in this process; counters may come from a profiling pass that ran before.

    Args:
        counters: Answers for the counters of each call.
        timer: Times on the current device.
        doubt: Why a time should be seen again before it is believed; empty where it should not.
        progress: Told what is being done; an empty text when it is done.
        traces: Folder for Chrome traces; need not exist.
    """

    def __init__(
        self,
        counters: ProfilingPass | CuptiCounters,
        timer: Timer,
        doubt: Callable[[Call, Timing], str],
        progress: Callable[[str], None],
        traces: Path,
    ) -> None:
        self._counters = counters
        self._timer = timer
        self._doubt = doubt
        self._progress = progress
        self._traces = traces

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
        """Time the call; one that differs from its baseline thrice, and the median counts."""

        def progress(text: str) -> None:
            self._progress(f"{call.nodeid}: {text}")

        try:
            first = self._timer.time(call, mode=mode, bytes=bytes, flops=flops, progress=progress)
            doubt = self._doubt(call, first)
            if not doubt:
                return first
            again = (
                self._timer.time(call, mode=mode, bytes=bytes, flops=flops, progress=progress)
                for _ in range(LOOKS - 1)
            )
            timings = sorted((first, *again), key=lambda timing: timing.time_us)
        finally:
            self._progress("")
        median = timings[len(timings) // 2]
        return replace(median, measured_again=(*median.measured_again, doubt))

    def profile(self, call: Call, *, kernels: Selection, metrics: tuple[str, ...]) -> Profile:
        """Profile the call, or look it up in the report of the profiling pass."""
        if kernels.regex is not None:
            check_regex(kernels.regex, f"for {call}")
        try:
            return self._counters.lookup(call, kernels, metrics, lambda: launched_kernels(call))
        finally:
            # What comes next may be timed, or be another profiler's.
            self._counters.let_go()

    def trace(self, call: Call) -> Trace:
        """Record the call, and keep torch.profiler's trace."""
        from pytest_gpuperf.measure.trace.capture import capture

        self._progress(f"{call.nodeid}: traced")
        try:
            return capture(call, self._traces / trace_file_name(call.nodeid, call.label))
        finally:
            self._progress("")

    def static(self, call: Call) -> dict[str, StaticKernel]:
        """Compile."""
        kernels: dict[str, StaticKernel] = call()
        return kernels


def trace_file_name(nodeid: str, label: str) -> str:
    """`test_gemm-torch-1a2b3c4d.json.gz`: to be recognised by people, and no other call's."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", f"{nodeid.rpartition('::')[2]}-{label}")[:60].strip("-")
    return f"{readable}-{zlib.crc32(f'{nodeid}#{label}'.encode()):08x}.json.gz"


def launched_kernels(call: Call) -> list[Activity]:
    """The kernels that a call launches, in order, as CUPTI sees them.

    Raises:
        CuptiError: It cannot.
    """
    call()
    with recorded() as activities:
        call()
    return [activity for activity in activities if activity.name]
