"""Compare a time with CUPTI's records of a few single calls.

CUDA events see one stream, and a graph holds what one capture recorded. The records have all streams, and
plain calls: so work on a stream that nobody waits for, work that no capture sees (that of a library on the
legacy stream), work that a thread launches after the call, and calls that do nothing but in a capture are
found. A mark, an empty kernel on the current stream, comes before and after each call. Nothing of a call may
run before its first mark or after its second one.
"""

from __future__ import annotations

import sys
import time
from math import inf
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.activity import busy_us, recorded
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.timing.graph import block_gpu
from pytest_gpuperf.measure.timing.marks import SPIN, mark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.measure.cupti.activity import Activity

REFUSED = "the time is refused: "
CALLS = 5
MOST_BLOCK_US = 200_000
THREADS_S = 0.004
"""Seconds in which other threads of Python may launch work after the last call."""
SLACK_US = 3.0
"""Overlap of a call with its marks that is no other stream: launches may overlap by their ends."""
MOST_RATIO = 1.4
"""Busy time of single calls over the time, from which on they disagree. Honest callables have 0.9 to 1.1 (12
operators on an H200, hot and cold)."""
LEAST_DIFFERENCE_US = 2.0
MOST_GAP_US = 2.0
"""More than the gap between two kernels of a graph, also on two streams."""


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

    @property
    def stays_inside(self) -> bool:
        """True if no work of a call ran before its first mark or after its second one."""
        return self.outside_us <= SLACK_US

    def unlike(self, time_us: float, graph_us: float = 0.0, captured: float = inf) -> str:
        """Say why a time does not hold all work of a call; empty if it does.

        Args:
            time_us: The time, in microseconds a call.
            graph_us: Time of a call in a graph by events, with its launch gaps; 0 if there is none.
            captured: Kernels, fills and copies of a call in the graph; infinite without a graph.
        """
        if self.launches > captured:
            return (
                f"a call launches {self.launches:g} kernels, fills and copies, and a capture sees "
                f"{captured:g} of them: the others run on a stream or a device that is not captured"
            )
        if not self.stays_inside:
            return (
                f"work of a call ran for {self.outside_us:.1f} us on a stream that does not wait for the "
                "current one, or that the current one does not wait for"
            )
        if self.busy_us > MOST_RATIO * time_us + LEAST_DIFFERENCE_US:
            return (
                f"single calls keep the GPU busy for {self.busy_us:.2f} us, and the time of a call in a "
                f"series is {time_us:.2f} us"
            )
        # Only a time that is too short is of use to anybody: a longer one than that of single calls stays.
        if graph_us > MOST_RATIO * time_us + MOST_GAP_US * self.launches + LEAST_DIFFERENCE_US:
            return f"a call in a graph takes {graph_us:.2f} us, and CUPTI's records of it {time_us:.2f} us"
        return ""


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
    launch_mark, name = mark()
    with recorded() as activities:
        block_gpu(min(100 + 2 * enqueue_us * calls, MOST_BLOCK_US))
        for _ in range(calls):
            if between is not None:
                between()
            launch_mark()
            fn()
            launch_mark()
        wait_for_threads()
    return audit_of(activities, name, calls, between=int(between is not None))


def audit_of(activities: Sequence[Activity], mark_name: str, calls: int, *, between: int = 0) -> Audit:
    """Compute an audit from records.

    Args:
        activities: The records.
        mark_name: Part of the name of a mark's kernel.
        calls: Number of calls.
        between: Launches before each call that are not its own.

    Raises:
        CuptiError: Marks are missing.
        GpuperfError: The calls launch kernels with the name of the marks.
    """
    in_order = sorted(activities, key=lambda one: one.launch)
    # The kernel that blocks the GPU comes first, and may be of the kind of the marks.
    first = next((one for one in in_order if one.name), None)
    if first is not None and SPIN in first.name:
        in_order.remove(first)
    marks = [one for one in in_order if mark_name in one.name]
    check_marks(len(marks), 2 * calls, mark_name)
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
    )


def counted(calls: Sequence[Sequence[Activity]]) -> list[list[Activity]]:
    """Return the activities of calls that count in a time: all, or without copies from and to the host.

    These count only if the calls do nothing else on the GPU. The same small copies of a call took 4.4 µs in
    one session and 6.9 µs in another, on other hosts (H200).
    """
    device = [[one for one in call if not one.with_host] for call in calls]
    return device if any(device) else [list(call) for call in calls]


def check_marks(found: int, launched: int, name: str) -> None:
    """Check that CUPTI recorded the marks, and nothing else by their name.

    Args:
        found: Number of recorded kernels with the name of the marks.
        launched: Number of marks.
        name: Their name.

    Raises:
        CuptiError: Marks are missing.
        GpuperfError: There are more: the callable could pass its work off as marks.
    """
    if found > launched:
        raise GpuperfError(
            f"{REFUSED}{found - launched} kernels of the callable have the name {name}, by which this plugin "
            "knows its own kernels",
            expected="kernels of other names",
        )
    if found < launched:
        raise CuptiError(
            f"CUPTI recorded {found} of {launched} marks",
            next_step="leave other profilers out of the process",
        )


def refuse_elsewhere(*, silent: int, late: int, calls: int) -> None:
    """Refuse calls that launch their work at another time.

    Args:
        silent: Number of calls that launched nothing.
        late: Number of launches after calls had returned.
        calls: Number of calls.

    Raises:
        GpuperfError: Some did.
    """
    if late:
        raise GpuperfError(
            f"{REFUSED}{late} launches came after {calls} calls had returned",
            expected="calls that launch all of their work before they return, also from other threads",
        )
    if silent:
        raise GpuperfError(
            f"{REFUSED}{silent} of {calls} calls launched nothing on the GPU",
            expected="calls that all do the same work",
        )


def wait_for_threads() -> None:
    """Give other threads of Python the time to launch, if there are any."""
    if len(sys._current_frames()) > 1:
        time.sleep(THREADS_S)
