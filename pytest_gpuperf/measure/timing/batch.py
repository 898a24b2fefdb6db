"""Blocks of many calls, timed as one: the parts of every timing.

Recorded blocks are calls one after the other under CUPTI; a `KernelsBatch` records each apart, on any stream.
"""

from __future__ import annotations

from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.activity import SPIN, busy_us, mark, recorded
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.device import memory, originals
from pytest_gpuperf.measure.device.driver import STAMP
from pytest_gpuperf.measure.device.originals import finish
from pytest_gpuperf.measure.timing.graph import (
    CapturedCalls,
    NotCapturableError,
    OutOfMemoryError,
    capture,
    hold_gpu,
    replay_us,
)
from pytest_gpuperf.measure.timing.places import Places
from pytest_gpuperf.measure.timing.sm_clock import until_steady
from pytest_gpuperf.statistics.decision import trimmed_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.measure.reachable_tensors import CallElsewhere
    from pytest_gpuperf.measure.timing.sm_clock import Stamps, WarmUpResult
    from pytest_gpuperf.records import StreamWork, TimingMode

    Call = Callable[[], Any]

MAX_CALLS = 2000
"""Capturing and instantiating a graph costs tens of microseconds a node; more nodes gain nothing."""
MAX_RECORDED_CALLS = 25
"""Calls of a recorded block. More blocks, each at another place, gain more than more calls."""
ENQUEUE_US = 20
"""Upper bound of the host's time to launch a call, unless it launches very many kernels."""
GAP_CALLS = 1000
GAP_BLOCKS = 11
SHORT_IN_GAPS = 30
"""A time of fewer launch gaps comes from CUPTI. On an H200 the gap is 0.5 to 0.7 µs. Events include the 0.1
to 0.35 µs between two kernels: up to 7 % of the time at ten gaps, under 2 % at thirty."""
WARM_UP_CAP_S = 3.0
USUAL_GAP_US = 0.6
"""Gap of an H200, for a choice before it is measured."""


class GpuWork(NamedTuple):
    """Work of a call by CUPTI's records of the whole device, in microseconds a call."""

    busy_us: float
    """Time in which at least one kernel, fill or copy ran; of copies from and to the host only if a call does
    nothing else."""
    kernels_us: float
    """Sum of their durations; more than `busy_us` if streams overlap."""
    host_copies_us: float
    """Sum of the durations of the copies from and to the host that are in neither of the others."""
    streams: tuple[StreamWork, ...]
    copied_bytes: float | None = None
    """Bytes that a call copies and fills; None if it launches kernels, too."""


class Block(NamedTuple):
    """The mean over the calls of one block."""

    time_us: float
    """Microseconds a call."""
    sm_clock_mhz: float = 0.0
    """Mean SM clock of the block, by stamps on the GPU; 0 without stamps."""
    work: GpuWork | None = None
    """Only from a batch that records all of its blocks."""


class Batch:
    """Many calls of one callable, timed in blocks.

    Args:
        fn: A callable without arguments.
        calls: Number of calls of a block.
        stamps: Stamps around each block; None for none.
    """

    mode: TimingMode
    enqueue_us = 0.0
    """Microseconds that the host needs to queue a call."""
    single_calls = True
    """True if CUPTI can record single calls next to the timed ones."""
    captured: CapturedCalls | None = None
    """The calls in the graph; None without a graph."""
    trial: torch.cuda.CUDAGraph | None = None
    """An earlier graph with a tensor that the first call reads; None if there is none."""
    elsewhere: Callable[[], CallElsewhere] | None = None
    """Returns the callable on copies of its tensors; None if it has none."""
    places: Places | None = None
    """Places in memory that recorded blocks take turns with; None for that of the call's own tensors."""
    not_captured = ""
    """Reason that no graph could be captured, unless the mode was asked for."""
    not_recorded = ""
    """Reason that CUPTI could not record the kernels of a callable that cannot be captured."""

    def __init__(self, fn: Callable[[], Any], calls: int, stamps: Stamps | None = None) -> None:
        self.calls = calls
        self.fn = fn
        self._stamps = stamps

    def run(self) -> Block:
        """Run one block and wait for it."""
        raise NotImplementedError

    def run_recorded(self, blocks: int) -> list[Block]:
        """Run blocks and take the kernels' own durations from CUPTI's records.

        The calls are launched one by one: inside a graph, kernels of a microsecond read 0.1 µs more.

        Raises:
            CuptiError: CUPTI is missing, or another profiler holds it.
        """
        return _recorded(self._next, blocks, self.calls, self._stamps)

    def run_at_places(self, rounds: int) -> list[Block]:
        """Run recorded blocks at several places in memory, in rounds, and so do all that follow.

        Returns:
            No block if the callable launches other kernels there, does less work, or has too little memory.
        """
        self.places = None
        if self.elsewhere is not None:
            with suppress(Exception):
                self.places = Places(self.fn, self.elsewhere)
                if self.places.agree(found := self.run_recorded(rounds * len(self.places.calls))):
                    return found
            self.places = None
        return []

    def _next(self) -> Call:
        return self.places.next() if self.places is not None else self.fn

    def block(self, *, recorded: bool) -> Block:
        """Run one block in turn with another batch; without a record of CUPTI's it has no time.

        Args:
            recorded: True to take its time from CUPTI's records.
        """
        try:
            return self.run_recorded(1)[0] if recorded else self.run()
        except CuptiError:
            return Block(0.0)

    def warm_up(self) -> WarmUpResult:
        """Run blocks until time and SM clock are steady."""
        return until_steady(self, WARM_UP_CAP_S, by_host=self.mode == "host")

    def records_better(self) -> bool:
        """Return True if CUPTI times a call better than events: one short kernel, hot. Blocks run for that.

        Next to another process, unchanged short kernels differ by up to 1.5 % from one restart to the next by
        events, which include gaps in the graph (H100). The gaps between several kernels are part of the call.
        A cold block is mostly flushes, so CUPTI gains nothing there.
        """
        if self.mode != "hot" or self.captured is None or not self.captured.single_nodes:
            return False
        # The first replay uploads the graph.
        if min(self.run().time_us for _ in range(3)) >= SHORT_IN_GAPS * USUAL_GAP_US:
            return False
        try:
            # One side at several places, and the other one at its own, would not be alike.
            return bool(self.run_recorded(1) if self.elsewhere is None else self.run_at_places(2))
        except CuptiError:
            return False


class HotBatch(Batch):
    """Events around one graph of many calls; each call finds the caches of the call before."""

    mode = "hot"
    captured: CapturedCalls

    def __init__(self, fn: Callable[[], Any], calls: int, stamps: Stamps | None = None) -> None:
        super().__init__(fn, calls, stamps)
        self.captured = CapturedCalls(fn)
        self.graph = capture(lambda: _stamped(self.captured, calls, stamps), self.captured.close)

    def run(self) -> Block:
        """Replay the graph once."""
        cost_us = self._stamps.cost_us if self._stamps is not None else 0.0
        return Block((replay_us(self.graph) - cost_us) / self.calls, _clock(self._stamps))


class ColdBatch(Batch):
    """A graph of (flush, call) pairs less a graph of the flushes alone.

    The flush writes `flush_bytes`, at least twice the L2, so that no part of the input stays there.
    """

    mode = "cold"
    captured: CapturedCalls

    def __init__(
        self, fn: Callable[[], Any], calls: int, flush_bytes: int, stamps: Stamps | None = None
    ) -> None:
        super().__init__(fn, calls, stamps)
        self._buffer = buffer = torch.empty(flush_bytes, dtype=torch.int8, device="cuda")
        self._buffer_is = buffer.data_ptr(), buffer.nbytes
        self.captured = CapturedCalls(fn)

        def captured_pair() -> None:
            originals.zero(buffer)
            self.captured()

        self.graph = capture(lambda: _stamped(captured_pair, calls, stamps), self.captured.close)
        self._flushes = capture(lambda: _stamped(lambda: originals.zero(buffer), calls, stamps))

    def flush(self) -> None:
        """Empty the L2 before a single call, also of memory that persists in it."""
        memory.reset_l2()
        originals.zero(self._buffer)

    def run(self) -> Block:
        """Replay each graph once; both have the stamps, whose cost cancels.

        Raises:
            GpuperfError: The callable has changed the buffer.
        """
        if (self._buffer.data_ptr(), self._buffer.nbytes) != self._buffer_is:
            raise GpuperfError(
                "the time is refused: the buffer that flushes the L2 was changed",
                expected="a callable that leaves the tensors of this plugin alone",
            )
        memory.reset_l2()
        flushes_us = replay_us(self._flushes)
        both_us = replay_us(self.graph)
        return Block((both_us - flushes_us) / self.calls, _clock(self._stamps))

    def run_recorded(self, blocks: int) -> list[Block]:
        """Run the pairs under CUPTI, and leave the flushes out."""

        def flushed() -> Call:
            fn = self._next()

            def pair() -> None:
                self.flush()
                fn()

            return pair

        return _recorded(flushed, blocks, self.calls, self._stamps, flushed=True)


class QueuedBatch(Batch):
    """An event pair around each call, all queued behind a kernel that blocks the GPU meanwhile.

    Without the blocking kernel the pairs of short calls would time the host, not the GPU. A callable that
    synchronises the host would break the queue, so such callables have a `KernelsBatch`.
    """

    mode = "queued"

    def __init__(
        self, fn: Callable[[], Any], calls: int, enqueue_us: float, stamps: Stamps | None = None
    ) -> None:
        super().__init__(fn, calls, stamps)
        self.enqueue_us = enqueue_us
        # Twice the time the host needs to queue everything, at most 0.2 s.
        self.block_us = min(2 * enqueue_us * calls, 200_000)
        self._pairs = [(originals.event(), originals.event()) for _ in range(calls)]

    def run(self) -> Block:
        """Run the pairs once."""
        # The callable may leave another stream as the current one.
        stream = originals.current_stream()
        hold_gpu(self.block_us)
        pairs = iter(self._pairs)

        def timed() -> None:
            start, end = next(pairs)
            originals.record(start, stream)
            self.fn()
            originals.record(end, stream)

        _stamped(timed, self.calls, self._stamps)
        originals.synchronize()
        total_us = sum(originals.elapsed_us(start, end) for start, end in self._pairs)
        return Block(total_us / self.calls, _clock(self._stamps))


class HostBatch(Batch):
    """Host clock around many calls and their end on the GPU: the time includes launches."""

    mode = "host"
    single_calls = False

    def run(self) -> Block:
        """Run the calls once."""
        finish()
        value = None
        begin = originals.now()
        for _ in range(self.calls):
            value = self.fn()
        finish(value)
        return Block((originals.now() - begin) * 1e6 / self.calls)


def _stamped(fn: Callable[[], Any], calls: int, stamps: Stamps | None) -> None:
    if stamps is not None:
        stamps.before()
    for _ in range(calls):
        fn()
    if stamps is not None:
        stamps.after()


def _clock(stamps: Stamps | None) -> float:
    return 0.0 if stamps is None else stamps.sm_clock_mhz()


def _recorded(
    next_call: Callable[[], Call], blocks: int, calls: int, stamps: Stamps | None, *, flushed: bool = False
) -> list[Block]:
    calls = min(calls, MAX_RECORDED_CALLS)
    clocks = []
    with recorded() as activities:
        for _ in range(blocks):
            fn = next_call()
            # The kernels follow each other like in the graph; the host launches them meanwhile.
            hold_gpu(calls * ENQUEUE_US)
            _stamped(fn, calls, stamps)
            originals.synchronize()
            clocks.append(_clock(stamps))
    if stamps is None:
        # A block is what follows its blocking kernel: [before, block, block, ...].
        _, *of_blocks = _parted(activities, SPIN)
    else:
        # A block lies between its stamps: [before, block, between, block, ..., after]. The other parts have
        # the next blocking kernel and the stamps' copies to the host, which are not work of the calls.
        parts = _parted(activities, STAMP)
        of_blocks = parts[1::2]
        if any(one.name and SPIN not in one.name for part in parts[::2] for one in part):
            raise CuptiError(
                "kernels of the calls ran before the block began or after its end",
                expected="work on other streams between waits with the current stream, in both directions",
            )
    lengths = {len(block) for block in of_blocks}
    if not any(lengths):
        raise CuptiError("CUPTI recorded nothing", next_step="leave other profilers out of the process")
    if len(of_blocks) != blocks or len(lengths) > 1 or lengths.pop() % calls:
        found = sum(map(len, of_blocks))
        raise CuptiError(f"{found} kernels in {blocks * calls} calls: they do not all launch the same")
    return [
        Block(_of_a_call(block, calls, flushed=flushed), clock)
        for block, clock in zip(of_blocks, clocks, strict=True)
    ]


def _parted(activities: Iterable[Activity], separator: str) -> list[list[Activity]]:
    """Split activities at the kernels that have `separator` in their name."""
    parts: list[list[Activity]] = [[]]
    for activity in activities:
        if separator in activity.name:
            parts.append([])
        else:
            parts[-1].append(activity)
    return parts


def _of_a_call(activities: list[Activity], calls: int, *, flushed: bool) -> float:
    """Return the microseconds of a call: the mean without the extremes, since some calls are disturbed."""
    each = len(activities) // calls
    # A flush is the first of its call, and no part of it.
    begin = int(flushed)
    if flushed and len({(one.name, one.bytes) for one in activities[::each]}) > 1:
        raise CuptiError("the calls do not all launch the same")
    return trimmed_mean(busy_us(activities[at + begin : at + each] for at in range(0, each * calls, each)))


def launch_gap_us() -> float:
    """Return the microseconds of an empty kernel in a graph of many."""
    mark()  # which compiles it
    graph = capture(lambda: _stamped(mark, GAP_CALLS, None))
    return sorted(replay_us(graph) for _ in range(GAP_BLOCKS))[GAP_BLOCKS // 2] / GAP_CALLS


FEW_CALLS = 10
"""Calls of a graph that is too short for the gaps of a long one."""


def in_short_graph_us(batch: Batch) -> float:
    """Return the microseconds of a call in a graph of a few; infinite if there can be no other graph of it.

    It may fail where the first did not: of outputs on two devices, torch had memory for the first one only.
    In a long graph, gaps between streams that wait for each other grow: from 1 µs a call in one of 10 to 8 µs
    in one of 1,000, on an H100.
    """
    try:
        few = HotBatch(batch.fn, FEW_CALLS)
    except (NotCapturableError, OutOfMemoryError):
        return inf
    return min(few.run().time_us for _ in range(2))  # the first replay uploads the graph


LAG_CALLS = 20


def device_lag_us(fn: Callable[[], Any]) -> float:
    """Return the time for which the device works on when the current stream has finished some calls.

    This shows work on other streams if it takes longer than that on the current one.
    """
    stream, done = originals.current_stream(), originals.event()
    originals.synchronize()
    for _ in range(LAG_CALLS):
        fn()
    originals.record(done, stream)
    while not originals.has_passed(done):
        pass
    begin = originals.now()
    originals.synchronize()
    return 1e6 * (originals.now() - begin)
