"""Compare a time with CUPTI's records of a few single calls.

CUDA events see one stream, and a graph holds what one capture recorded. The records have all streams, and
plain calls: so work on a stream that nobody waits for, work that no capture sees (that of a library on the
legacy stream), work that a thread launches after the call, and calls that do nothing but in a capture are
found. A mark, an empty kernel on the current stream, comes before and after each call. Nothing of a call may
run before its first mark or after its second one.
"""

from __future__ import annotations

from math import inf
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.activity import (
    REFUSED,
    SPIN,
    busy_us,
    copied_bytes,
    counted,
    mark,
    marks_in,
    recorded,
    refuse_elsewhere,
    wait_for_threads,
)
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.timing.batch import ColdBatch, device_lag_us, in_short_graph_us
from pytest_gpuperf.measure.timing.graph import hold_gpu
from pytest_gpuperf.records import SingleCall, Timing, Verification

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.measure.timing.batch import Batch

CALLS = 5
MOST_BLOCK_US = 200_000
RECORDINGS = 2
"""Recordings of single calls that have to disagree with a time."""
SLACK_US = 3.0
"""Overlap of a call with its marks that is no other stream: launches may overlap by their ends."""
MOST_RATIO = 1.4
"""Busy time of single calls over the time, from which on they disagree. Honest callables have 0.9 to 1.1 (12
operators on an H200, hot and cold)."""
LEAST_DIFFERENCE_US = 2.0
MOST_GAP_US = 2.0
"""More than the gap between two kernels of a graph, also on two streams."""
LAGS = 3
MOST_LAG_US = 50.0
"""Time of the host between the end of one stream and of the device, if nothing else runs."""


class UncontainedError(GpuperfError):
    """Single calls did work that the time does not contain.

    Args:
        why: What shows it.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"{REFUSED}{why}",
            expected="streams that wait for each other, and the same work in each call",
            next_step="use mode='kernels', which has the work of single calls on all streams",
        )


class Audit(NamedTuple):
    """Records of single calls."""

    busy_us: float
    """Median time a call in which at least one of its `counted` activities ran."""
    silent: int
    """Calls that launched nothing."""
    calls: int
    outside_us: float
    """Longest time for which work of a call ran before its first mark or after its second one."""
    late: int
    """Launches on the device between or after the calls."""
    launches: float
    """Median number of kernels, fills and copies of a call."""
    copied_bytes: float | None = None
    """Bytes that a call copies and fills; None if it launches kernels, too."""

    def uncontained(self, captured: float = inf) -> str:
        """Name work of a call that the time cannot contain; empty if there is none.

        Args:
            captured: Kernels, fills and copies of a call in the graph; infinite without a graph.
        """
        if self.launches > captured:
            return (
                f"a call launches {self.launches:g} kernels, fills and copies, and a capture sees "
                f"{captured:g} of them: the others run on a stream or a device that is not captured"
            )
        if self.outside_us > SLACK_US:
            return (
                f"work of a call ran for {self.outside_us:.1f} us on a stream that does not wait for the "
                "current one, or that the current one does not wait for"
            )
        return ""

    def doubt(self, time_us: float, graph_us: float = 0.0) -> str:
        """Say why a time seems too short; empty if it does not.

        Args:
            time_us: The time, in microseconds a call.
            graph_us: Time of a call in a graph by events, with its launch gaps; 0 if there is none.
        """
        if self.busy_us > MOST_RATIO * time_us + LEAST_DIFFERENCE_US:
            return (
                f"single calls keep the GPU busy for {self.busy_us:.2f} us, and the time of a call in a "
                f"series is {time_us:.2f} us"
            )
        # Only a time that is too short is of use to anybody: a longer one than that of single calls stays.
        if graph_us > MOST_RATIO * time_us + MOST_GAP_US * self.launches + LEAST_DIFFERENCE_US:
            return f"a call in a graph takes {graph_us:.2f} us, and CUPTI's records of it {time_us:.2f} us"
        return ""


def contained(batch: Batch, timing: Timing, mode: str) -> Timing:
    """Compare a time with single calls.

    Args:
        batch: The calls that were timed.
        timing: Its time.
        mode: The mode that was asked for; in `auto` a doubt is enough to time by kernels instead.

    Returns:
        The timing with the time of single calls, and with a doubt if that is much longer.

    Raises:
        UncontainedError: The time does not contain all work of a call.
        GpuperfError: Calls launch at another time, or only sometimes.
    """
    if not batch.single_calls:
        return timing  # CUPTI records all of its calls anyway, or cannot
    why = doubt = ""
    flush = batch.flush if isinstance(batch, ColdBatch) else None
    launches = inf if batch.captured is None else batch.captured.launches
    graph_us = (timing.us_by("events") if timing.mode == "hot" else None) or 0.0
    for at in range(RECORDINGS):
        try:
            found = audit(batch.fn, batch.enqueue_us, flush)
        except CuptiError as error:
            timing = replace(timing, single_call=SingleCall(not_compared=error.found))
            return _doubted(timing, lagging(batch.fn))
        except torch.cuda.OutOfMemoryError:
            # The graph holds the memory of an output, and the timed calls needed no more.
            needed = batch.captured.output_bytes if batch.captured else 0
            if (free := torch.cuda.mem_get_info()[0]) >= needed:
                raise
            free_gib, needed_gib = free / 2**30, needed / 2**30
            short = f"{free_gib:.3g} GiB are free, and a call next to the graph needs {needed_gib:.3g} GiB"
            return replace(timing, single_call=SingleCall(not_compared=short))
        refuse_elsewhere(silent=found.silent, late=found.late, calls=found.calls)
        single = SingleCall(busy_us=round(found.busy_us, 4), copied_bytes=found.copied_bytes)
        timing = replace(timing, single_call=single)
        if at and graph_us:
            # Another process may have disturbed the graph, or its streams wait long for each other.
            graph_us = min(graph_us, batch.run().time_us, in_short_graph_us(batch))
        why = found.uncontained(launches)
        doubt = "" if why else found.doubt(timing.time_us, graph_us)
        if not (why or doubt):
            return timing
        state = timing.conditions
        if not why and state is not None and state.other_processes:
            unlike = replace(single, not_compared="another process was on the GPU")
            return replace(timing, single_call=unlike)
    if why or mode == "auto":
        raise UncontainedError(why or doubt)
    return _doubted(timing, doubt)


def _doubted(timing: Timing, doubt: str) -> Timing:
    return replace(timing, verification=Verification(doubts=(doubt,))) if doubt else timing


def audit(
    fn: Callable[[], Any], enqueue_us: float, between: Callable[[], object] | None = None, calls: int = CALLS
) -> Audit:
    """Record single calls.

    Args:
        fn: A callable without arguments.
        enqueue_us: Microseconds that the host needs to queue a call.
        between: Runs before each call, and launches on the current stream only; None for nothing.
        calls: Number of calls.

    Raises:
        CuptiError: CUPTI is missing, or another profiler holds it.
        GpuperfError: The calls launch kernels with the name of the marks.
    """
    with recorded() as activities:
        hold_gpu(min(100 + 2 * enqueue_us * calls, MOST_BLOCK_US))
        for _ in range(calls):
            if between is not None:
                between()
            mark()
            fn()
            mark()
        wait_for_threads()
    return audit_of(activities, calls, between=int(between is not None))


def audit_of(activities: Sequence[Activity], calls: int, *, between: int = 0) -> Audit:
    """Compute an audit from records.

    Args:
        activities: The records.
        calls: Number of calls.
        between: Launches before each call that are not its own.

    Raises:
        CuptiError: Marks are missing.
        GpuperfError: The calls launch kernels with the name of the marks.
    """
    in_order = sorted(activities, key=lambda one: one.launch)
    # The kernel that blocks the GPU comes first.
    first = next((one for one in in_order if one.name), None)
    if first is not None and SPIN in first.name:
        in_order.remove(first)
    marks = marks_in(in_order, 2 * calls)
    of_calls: list[list[Activity]] = [[] for _ in range(calls)]
    elsewhere = 0
    at = 0
    for one in in_order:
        if at < len(marks) and one is marks[at]:
            at += 1
        elif at % 2:
            of_calls[at // 2].append(one)
        elif not one.with_host:  # which may be a copy of a thread that loads data
            elsewhere += 1
    work_of_calls = counted(of_calls)
    outside_ns = [
        max(begin.end_ns - one.start_ns, one.end_ns - end.start_ns)
        for work, begin, end in zip(work_of_calls, marks[::2], marks[1::2], strict=True)
        for one in work
    ]
    return Audit(
        busy_us=median(busy_us(map(sorted, work_of_calls))),
        silent=of_calls.count([]),
        calls=calls,
        outside_us=max(outside_ns, default=0) / 1e3,
        late=max(0, elsewhere - between * calls),
        launches=median(map(len, of_calls)),
        copied_bytes=copied_bytes(of_calls),
    )


def lagging(fn: Callable[[], Any]) -> str:
    """Say for how long the device works on after the current stream; empty if it does not."""
    lag_us = min(device_lag_us(fn) for _ in range(LAGS))
    if lag_us <= MOST_LAG_US:
        return ""
    return f"the GPU worked for {lag_us:.0f} us more when the current stream had finished its calls"
