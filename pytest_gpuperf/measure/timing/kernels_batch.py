"""Calls one by one under CUPTI: the times of their kernels, on any stream, however long the host waits.

Between two calls the whole device is idle, and a mark, an empty kernel, separates their launches. The GPU
also idles in a call that waits for it. The times of the kernels do not include that: they vary by 0.1 to
0.4 % between processes while the time of the host varies by up to 100 % (H200, `docs/explanation/gate.md`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.measure.counters.counter_source import function_name
from pytest_gpuperf.measure.cupti.activity import (
    busy_us,
    copied_bytes,
    counted,
    mark,
    marks_in,
    recorded,
    refuse_elsewhere,
    wait_for_threads,
)
from pytest_gpuperf.measure.cupti.libcupti import detach
from pytest_gpuperf.measure.device.driver import STAMP
from pytest_gpuperf.measure.device.originals import finish
from pytest_gpuperf.measure.timing.batch import Batch, Block, GpuWork, HostBatch
from pytest_gpuperf.measure.timing.graph import nothing_launched
from pytest_gpuperf.records import SingleCall, StreamWork
from pytest_gpuperf.statistics.decision import interquartile_range, trimmed_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.measure.timing.sm_clock import Stamps

BLOCK_US = 5_000
HOST_BLOCK_US = 50_000
"""Kernel time, and time of the host, that a block of several calls may take."""
MAX_CALLS = 50
FIRST_CALLS = 3
"""Calls of the first recording, which shows how long a call takes."""
HOST_BLOCKS = 20
BLOCK_BY_HOST_US = 10_000
"""Time of the host in each of these blocks."""


class KernelsBatch(Batch):
    """Durations of all kernels, fills and copies of each call, on any device, by CUPTI's records.

    Copies from and to the memory of the host are recorded apart, unless a call does nothing else.

    Args:
        fn: A callable without arguments.
        stamps: Stamps around each block; None for none.

    Raises:
        CuptiError: CUPTI is missing, or another profiler holds it.
        GpuperfError: The callable launched nothing on the GPU.
    """

    mode = "kernels"
    single_calls = False

    def __init__(self, fn: Callable[[], Any], stamps: Stamps | None = None) -> None:
        super().__init__(fn, 1, stamps)
        self._serial = False
        first, _ = self._record(FIRST_CALLS, first=True)
        if not any(first):
            raise nothing_launched()
        call_us = max(trimmed_mean(busy_us(first)), 0.1)
        if len({one.stream for call in first for one in call}) == 1:
            self._serial = self._serial_is_shorter()
        detach()
        self._host_us = HostBatch(fn, 1).run().time_us
        most = min(MAX_CALLS, round(HOST_BLOCK_US / self._host_us))
        self.calls = max(1, min(most, round(BLOCK_US / call_us)))

    def run(self) -> Block:
        """Record the calls of one block. CUPTI stays attached; `detach` ends that."""
        calls, current = self._record(self.calls)
        work = work_of(calls, current)
        # The stamps have the clock of the current device.
        elsewhere = any(one.device != current.device for call in calls for one in call)
        clock = 0.0 if self._stamps is None or elsewhere else self._stamps.sm_clock_mhz()
        return Block(work.busy_us, clock, work)

    def host_blocks_us(self) -> list[float]:
        """Time blocks by the host's clock, without CUPTI: microseconds a call."""
        detach()
        batch = HostBatch(self.fn, max(1, min(MAX_CALLS, round(BLOCK_BY_HOST_US / self._host_us))))
        return [batch.run().time_us for _ in range(HOST_BLOCKS)]

    def _serial_is_shorter(self) -> bool:
        """Return True if the serialised records are shorter: CUPTI lengthens both, but no kernel shortens."""
        shortest_us = {False: inf, True: inf}
        # In turn, since the clock may still rise.
        for self._serial in (True, False) * 2:
            calls, _ = self._record(FIRST_CALLS)
            shortest_us[self._serial] = min(shortest_us[self._serial], *busy_us(counted(calls)))
        return shortest_us[True] < shortest_us[False]

    def _record(self, calls: int, *, first: bool = False) -> tuple[list[list[Activity]], Activity]:
        """Return the activities of each call, and a mark, which ran on the current stream.

        Raises:
            GpuperfError: Launches came late, some calls launched nothing, or kernels have the name of the
                marks.
        """
        with recorded(stay=True, serial=self._serial) as activities:
            if self._stamps is not None:
                self._stamps.before()
            for _ in range(calls):
                mark()
                finish(self.fn())
            mark()
            if first:
                wait_for_threads()
            if self._stamps is not None:
                self._stamps.after()
        marks = marks_in(activities, calls + 1)
        launches = sorted(one.launch for one in marks)
        after = [one.name for one in activities if one.launch > launches[-1] and not one.with_host]
        # One of them is the stamp; a kernel of the callable may have its name.
        late = len(after) - int(self._stamps is not None and any(STAMP in name for name in after))
        found = by_call(activities, launches)
        silent = found.count([])
        refuse_elsewhere(silent=0 if first and silent == calls else silent, late=late, calls=calls)
        return found, marks[0]


def by_call(activities: Sequence[Activity], marks: Sequence[int]) -> list[list[Activity]]:
    """Split activities by the launch numbers of the marks around the calls; leave out all others."""
    calls: list[list[Activity]] = [[] for _ in marks[1:]]
    for activity in activities:
        at = bisect_left(marks, activity.launch)
        if 0 < at < len(marks) and activity.launch != marks[at]:
            calls[at - 1].append(activity)
    return calls


def work_of(calls: Sequence[Sequence[Activity]], current: Activity) -> GpuWork:
    """Return the mean work of a call: without the extremes for times, since some calls are disturbed.

    Args:
        calls: The activities of each call.
        current: An activity on the current stream.
    """
    work = counted(calls)
    return GpuWork(
        busy_us=trimmed_mean(busy_us(work)),
        kernels_us=trimmed_mean([_sum_us(call) for call in work]),
        host_copies_us=trimmed_mean(
            [_sum_us(call) - _sum_us(own) for call, own in zip(calls, work, strict=True)]
        ),
        streams=_streams(work, current),
        copied_bytes=copied_bytes(calls),
    )


def _streams(calls: Sequence[Sequence[Activity]], current: Activity) -> tuple[StreamWork, ...]:
    ran: defaultdict[tuple[int, int], list[Activity]] = defaultdict(list)
    for call in calls:
        for activity in call:
            # Each device has a stream of the same number.
            ran[activity.device, activity.stream].append(activity)
    return tuple(
        StreamWork(
            stream=stream,
            current=(device, stream) == (current.device, current.stream),
            launches=round(len(activities) / len(calls), 2),
            kernels_us=round(_sum_us(activities) / len(calls), 3),
            kernels=tuple(dict.fromkeys(function_name(one.name) for one in activities if one.name)),
        )
        for (device, stream), activities in sorted(ran.items())
    )


def _sum_us(activities: Sequence[Activity]) -> float:
    return sum(one.end_ns - one.start_ns for one in activities) / 1e3


def single_call_of(blocks: Sequence[Block], host_us: Sequence[float]) -> SingleCall:
    """Return the mean work of the calls of recorded blocks; the streams are those of the last.

    Args:
        blocks: The blocks.
        host_us: Times of a call by the host's clock, in microseconds.
    """
    works = [block.work for block in blocks if block.work is not None]
    return SingleCall(
        busy_us=round(trimmed_mean([work.busy_us for work in works]), 6),
        kernels_us=round(trimmed_mean([work.kernels_us for work in works]), 6),
        host_copies_us=round(fmean(work.host_copies_us for work in works), 4),
        host_us=round(trimmed_mean(host_us), 3),
        host_spread_pct=round(100 * interquartile_range(host_us) / trimmed_mean(host_us), 2),
        streams=works[-1].streams,
        copied_bytes=works[-1].copied_bytes,
    )
