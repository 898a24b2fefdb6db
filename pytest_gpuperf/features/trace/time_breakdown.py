"""Split the time of a GPU into computation, communication, copies and waiting.

The definitions are those of TraceLens (`GPUEventAnalyser.compute_metrics`), each kind of work as the union of
its intervals:

    span = computation + exposed communication + exposed copies + idle

Computation is fills, and all kernels except communication. Communication is exposed if no computation runs, a
copy if neither runs. HolisticTraceAnalysis (HTA; `get_temporal_breakdown`, `get_comm_comp_overlap`)
differs in one point: it counts fills as copies.

The activity that ends an idle interval explains it, by the rule of HTA's `get_idle_time_breakdown`: the GPU
waited for the host if the launch of that activity began after the interval did. Otherwise the activity had
been launched, and the GPU waited for the kernel; HTA divides this case by the length of the interval into
"kernel wait" and "other". HTA looks at each stream by itself, this module at the whole GPU.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.features.trace.kernel_categories import category_of
from pytest_gpuperf.records.trace import Communication, Idle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_gpuperf.features.trace.chrome_traces import TraceActivity

    Interval = tuple[float, float]

_COPIES = re.compile(r"__amd_rocclr_copyBuffer|MEMORY_COPY_")
"""Copies that ROCm up to 7.1 records as kernels."""


class TimeBreakdown(NamedTuple):
    """The parts of a span, in microseconds."""

    busy_us: float
    computation_us: float
    communication: Communication
    exposed_copy_us: float
    idle: Idle


def split_span(activities: Sequence[TraceActivity], launched_us: Mapping[int, float]) -> TimeBreakdown:
    """Split the span of activities on one GPU.

    Args:
        activities: Sorted by start.
        launched_us: Start of the host call of each correlation.
    """
    computation: list[Interval] = []
    communication: list[Interval] = []
    both: list[Interval] = []
    everything: list[Interval] = []
    for one in activities:
        interval = one.start_us, one.end_us
        everything.append(interval)
        if one.kind != "memcpy" and not _COPIES.match(one.name):
            both.append(interval)
            communicates = category_of(one.name) == "communication"
            (communication if communicates else computation).append(interval)
    computation_us, communication_us, both_us = map(union_us, (computation, communication, both))
    exposed_us = both_us - computation_us
    busy_us = union_us(everything)
    return TimeBreakdown(
        busy_us,
        computation_us,
        Communication(
            total_us=communication_us,
            exposed_us=exposed_us,
            overlapped_us=max(0.0, communication_us - exposed_us),
            kernels=len(communication),
        ),
        busy_us - both_us,
        _idle(activities, launched_us),
    )


def union_us(intervals: Iterable[Interval]) -> float:
    """Return the length of the union of intervals sorted by their start: overlaps count once."""
    total, covered = 0.0, float("-inf")
    for start, end in intervals:
        if end > covered:
            total += end - (start if start > covered else covered)
            covered = end
    return total


def _idle(activities: Sequence[TraceActivity], launched_us: Mapping[int, float]) -> Idle:
    host_us = kernel_us = unknown_us = 0.0
    covered = activities[0].end_us
    for one in activities[1:]:
        gap_us = one.start_us - covered
        if gap_us > 0:
            at = launched_us.get(one.args.correlation)
            if at is None:
                unknown_us += gap_us
            elif at > covered:
                host_us += gap_us
            else:
                kernel_us += gap_us
        covered = max(covered, one.end_us)
    return Idle(
        total_us=host_us + kernel_us + unknown_us,
        host_wait_us=host_us,
        kernel_wait_us=kernel_us,
        unknown_us=unknown_us,
    )
