"""The kernel table of a call, recorded now.

torch.profiler tells what ran, but slows the host down while it does, so that a call whose launches the GPU
waits for looks worse than it is. The durations on the GPU stay the same. So the call's span on the GPU is
measured three times: by torch.profiler, by CUPTI's activity records alone, which cost the host much less, and
by a pair of CUDA events without any profiler. The first two can only be too long, because what records them
delays the host and the nodes of a graph. So can the third, because an event before the first kernel and one
after the last enclose the span, where all is on the stream of the events: a call that leaves work on another
stream goes on behind the second event, and of calls with several streams the third is not taken. The shortest
is the closest, and what follows from it is a bound: the GPU is busy for at least `gpu_busy_pct`, and a launch
leaves it idle for at most `launch_gap_us`.
"""

from __future__ import annotations

import statistics
import warnings
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import torch
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti import activity
from pytest_gpuperf.measure.cupti.binding import CuptiError
from pytest_gpuperf.measure.timing.graph import elapsed_us, event
from pytest_gpuperf.measure.trace.chrome import read_chrome_trace
from pytest_gpuperf.measure.trace.summary import CALL_MARK, busy_us, summarise, with_span
from pytest_gpuperf.measure.trace.triton_code import TritonCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gpuperf.records import Trace
    from pytest_gpuperf.records.trace import SpanSource

WARM_UP_CALLS = 3
"""Compilation and autotuning happen in the first, lazy initialisation in the next."""
CALLS = 5
"""Recorded by each of the three, one by one, of which the median counts."""


class Span(NamedTuple):
    """How long a call keeps the GPU, and how much of that it is busy."""

    span_us: float
    busy_us: float
    by: SpanSource


def capture(fn: Callable[[], object], file: Path) -> Trace:
    """Record what one call runs on the current GPU.

    Args:
        fn: Takes no arguments; is called some twenty times.
        file: Where to keep torch.profiler's Chrome trace, gzipped; its folder is made.

    Raises:
        GpuperfError: The call runs nothing on the GPU, or another profiler is at work.
    """
    if activity.torch_profiler_runs():
        raise GpuperfError(
            "torch.profiler is running around the test", expected="none, for there can be only one"
        )
    for _ in range(WARM_UP_CALLS):
        fn()
    torch.cuda.synchronize()
    event_us = _by_events(fn)
    recorded = _by_cupti(fn)
    file.parent.mkdir(parents=True, exist_ok=True)
    _profile(fn, file)
    trace = replace(
        summarise(read_chrome_trace(file), tensor_cores=TritonCode()), file=f"{file.parent.name}/{file.name}"
    )
    return with_shortest(trace, recorded, event_us)


def with_shortest(trace: Trace, recorded: Span | None, event_us: float) -> Trace:
    """The trace with the shortest of its spans.

    Args:
        trace: By torch.profiler.
        recorded: By CUPTI alone; None where that did not work.
        event_us: Between two events around the call, in microseconds.
    """
    spans = [Span(trace.span_us, trace.busy_us, "profiler"), *([recorded] if recorded else [])]
    if trace.streams == 1:
        busy = recorded.busy_us if recorded else trace.busy_us
        spans.append(Span(max(event_us, busy), busy, "events"))
    return with_span(trace, *min(spans, key=lambda span: span.span_us))


def _by_events(fn: Callable[[], object]) -> float:
    """Median microseconds between an event before a call and one after it."""
    times = []
    for _ in range(CALLS):
        start, end = event(), event()
        torch.cuda.synchronize()
        start.record()
        fn()
        end.record()
        torch.cuda.synchronize()
        times.append(elapsed_us(start, end))
    return statistics.median(times)


def _by_cupti(fn: Callable[[], object]) -> Span | None:
    """The median call by CUPTI's records alone; None where there are none, or they cannot be told apart."""
    try:
        with activity.recorded() as activities:
            for _ in range(CALLS):
                torch.cuda.synchronize()
                fn()
    except CuptiError:
        return None
    return median_call(activities)


def median_call(activities: list[activity.Activity]) -> Span | None:
    """The call with the median span, out of the records of `CALLS` calls that ran one after the other.

    Returns:
        None where the calls did not all run the same, so that it cannot be said where one ends.
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
        spans.append(Span(max(end for _, end in intervals), busy_us(intervals), "cupti"))
    return sorted(spans)[CALLS // 2]


def _names(call: list[activity.Activity]) -> Counter[tuple[str, tuple[int, int, int]]]:
    return Counter((one.name, one.grid) for one in call)


def _profile(fn: Callable[[], object], file: Path) -> None:
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with warnings.catch_warnings():
        # What the call itself warns of has been seen in the warm-up.
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=kinds) as profiler:
            for _ in range(CALLS):
                torch.cuda.synchronize()
                with torch.profiler.record_function(CALL_MARK):
                    fn()
            torch.cuda.synchronize()
        profiler.export_chrome_trace(str(file))
    activity.detach()
