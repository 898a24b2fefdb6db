"""Record the kernel table of a call.

torch.profiler lists the kernels but slows the host down, so that a call whose launches the GPU waits for
looks worse than it is. The durations on the GPU stay the same. So the call's span on the GPU is measured
three times: by torch.profiler, by CUPTI's activity records alone, which cost the host much less, and by a
pair of CUDA events without any profiler. The first two can only be too long, because recording delays the
host and the nodes of a graph. The third can only be too long as well, because its events enclose the span if
all work is on their stream. Work on another stream may continue after the second event, so the third is not
used for calls with several streams. The shortest span is the closest, and its consequences are bounds: the
GPU is busy for at least `gpu_busy_pct`, and a launch leaves it idle for at most `launch_gap_us`.
"""

from __future__ import annotations

import dataclasses
import statistics
import warnings
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import torch
from msgspec.structs import replace

from pytest_gpuperf.features.trace.chrome_traces import read_chrome_trace
from pytest_gpuperf.features.trace.regions import CALL_MARK
from pytest_gpuperf.features.trace.summary import summarise, with_span
from pytest_gpuperf.features.trace.time_breakdown import union_us
from pytest_gpuperf.features.trace.triton_tensor_cores import TritonCode
from pytest_gpuperf.measure.cupti import activity
from pytest_gpuperf.measure.cupti.libcupti import CuptiError, detach
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.records.timing import OTHER_CLIENT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gpuperf.records import Trace
    from pytest_gpuperf.records.trace import SpanSource

WARM_UP_CALLS = 3
"""The first call compiles and autotunes, the next initialises lazily."""
CALLS = 5
"""Calls that each of the three methods records one by one; the median counts."""


class Span(NamedTuple):
    """Time from a call's first activity on the GPU to its last, and the busy part of it."""

    span_us: float
    busy_us: float
    by: SpanSource


def capture(fn: Callable[[], object], file: Path) -> Trace:
    """Record the activities of one call on the current GPU.

    Args:
        fn: A callable without arguments; it is called about twenty times.
        file: Path for torch.profiler's gzipped Chrome trace; its folder is created.

    Raises:
        GpuperfError: The call runs nothing on the GPU, or another profiler is active.
    """
    for _ in range(WARM_UP_CALLS):
        fn()
    originals.synchronize()
    event_us = _by_events(fn)
    recorded = _by_cupti(fn)
    file.parent.mkdir(parents=True, exist_ok=True)
    _profile(fn, file)
    events = dataclasses.replace(read_chrome_trace(file), tensor_cores=TritonCode())
    trace = replace(summarise(events), file=f"{file.parent.name}/{file.name}")
    return with_shortest(trace, recorded, event_us)


def with_shortest(trace: Trace, recorded: Span | None, event_us: float) -> Trace:
    """Return the trace with the shortest of its spans.

    Args:
        trace: Trace of torch.profiler.
        recorded: Span by CUPTI alone; None if that did not work.
        event_us: Time between two events around the call, in microseconds.
    """
    spans = [Span(trace.span_us, trace.busy_us, "profiler"), *([recorded] if recorded else [])]
    if trace.streams == 1:
        busy = recorded.busy_us if recorded else trace.busy_us
        spans.append(Span(max(event_us, busy), busy, "events"))
    return with_span(trace, *min(spans, key=lambda span: span.span_us))


def _by_events(fn: Callable[[], object]) -> float:
    """Return the median microseconds between an event before a call and one after it."""
    times = []
    for _ in range(CALLS):
        start, end = originals.event(), originals.event()
        originals.synchronize()
        originals.record(start)
        fn()
        originals.record(end)
        originals.synchronize()
        times.append(originals.elapsed_us(start, end))
    return statistics.median(times)


def _by_cupti(fn: Callable[[], object]) -> Span | None:
    """Return the median call by CUPTI's records alone; None if calls cannot be separated."""
    try:
        with activity.recorded() as activities:
            for _ in range(CALLS):
                originals.synchronize()
                fn()
    except CuptiError as error:
        if OTHER_CLIENT in error.found:
            # A torch.profiler that cannot subscribe would record nothing, nor would any later one.
            raise
        return None
    return median_call(activities)


def median_call(activities: list[activity.Activity]) -> Span | None:
    """Return the call with the median span, from the records of `CALLS` consecutive calls.

    Returns:
        None if the calls did not all run the same kernels, so that their ends are unknown.
    """
    each, rest = divmod(len(activities), CALLS)
    if not each or rest:
        return None
    calls = [activities[start : start + each] for start in range(0, len(activities), each)]
    if any(_names(call) != _names(calls[0]) for call in calls):
        return None
    spans = []
    for call in calls:
        # Nanoseconds since 1970 have more digits than a float keeps.
        first = call[0].start_ns
        intervals = [((one.start_ns - first) / 1e3, (one.end_ns - first) / 1e3) for one in call]
        spans.append(Span(max(end for _, end in intervals), union_us(intervals), "cupti"))
    return sorted(spans)[CALLS // 2]


def _names(call: list[activity.Activity]) -> Counter[tuple[str, tuple[int, int, int]]]:
    return Counter((one.name, one.grid) for one in call)


def _profile(fn: Callable[[], object], file: Path) -> None:
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with warnings.catch_warnings():
        # The warm-up has already shown the call's own warnings.
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=kinds) as profiler:
            for _ in range(CALLS):
                torch.cuda.synchronize()
                with torch.profiler.record_function(CALL_MARK):
                    fn()
            torch.cuda.synchronize()
        profiler.export_chrome_trace(str(file))
    detach()
