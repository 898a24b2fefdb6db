"""Time a call on one rank: each timed call begins after a barrier, and has a pair of events of its own.

On a GPU the barrier is a kernel (a small all-reduce) in the stream of the call, so that all ranks begin
within a few microseconds. A kernel that blocks the GPU lets the host queue a whole block ahead: else the
events would time the launches of a slow host. On a CPU the host's clock times the calls.

All ranks run the same number of calls, because each decision is on numbers that they share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_gpuperf.features.ranks.messages import TimesOfRank
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.timing.graph import hold_gpu
from pytest_gpuperf.records.ranks import RankTime

if TYPE_CHECKING:
    from pytest_gpuperf.features.ranks.single_rank_call import RankedCall
    from pytest_gpuperf.records import Conditions

BLOCK_US = 5000
"""Length of a block, from which a few calls are enough."""
FIRST_CALLS, LEAST_CALLS, MOST_CALLS = 3, 5, 50
LEAST_BLOCKS, MOST_BLOCKS = 10, 40
WARM_UP_US = 300_000
LEAST_QUEUE_US, FIRST_QUEUE_US, MOST_QUEUE_US = 100.0, 20_000.0, 200_000.0
ATTEMPTS = 3
"""Attempts at a block whose calls the host has queued too late."""


@dataclass(frozen=True)
class _Block:
    times_us: list[float]
    """Time of each call on this rank."""
    late: bool = False
    """True if the GPU of a rank was ready before its host had queued the block."""


@dataclass
class _Queue:
    """Queues the blocks of a call."""

    call: RankedCall
    block_us: float = FIRST_QUEUE_US
    """Time for which a kernel blocks the GPU while the host queues a block."""

    def run(self, calls: int) -> _Block:
        """Run a block."""
        block = self._run_on_gpu(calls) if self.call.on_gpu else _Block(_times_by_host(self.call, calls))
        (late,) = self.call.largest(block.late)
        return _Block(block.times_us, bool(late))

    def run_in_time(self, calls: int) -> _Block:
        """Run a block that no host was late for; after some attempts one that a host was late for."""
        for _ in range(ATTEMPTS):
            block = self.run(calls)
            if not block.late:
                break
        return block

    def _run_on_gpu(self, calls: int) -> _Block:
        stream = originals.current_stream()
        pairs = [(originals.event(), originals.event()) for _ in range(calls)]
        ready = originals.event()
        self.call.meet()
        begin = originals.now()
        hold_gpu(self.block_us)
        originals.record(ready, stream)
        for start, end in pairs:
            self.call.barrier()
            originals.record(start, stream)
            self.call()
            originals.record(end, stream)
        late = originals.has_passed(ready)
        # Twice what the host needs, for the next block.
        self.block_us = min(max(2e6 * (originals.now() - begin), LEAST_QUEUE_US), MOST_QUEUE_US)
        originals.synchronize()
        return _Block([originals.elapsed_us(start, end) for start, end in pairs], late)


def time_call(call: RankedCall, budget_s: float) -> TimesOfRank:
    """Warm up, then time blocks of calls.

    Args:
        call: The call.
        budget_s: Seconds for the blocks, if there are more than `LEAST_BLOCKS`.
    """
    call.doing("warms up")
    for _ in range(FIRST_CALLS):
        call()
    call.meet()
    queue = _Queue(call)
    (first_us,) = call.largest(fmean(queue.run(FIRST_CALLS).times_us))
    calls = _between(LEAST_CALLS, BLOCK_US / first_us, MOST_CALLS)
    wall_us = warm_us = 0.0
    while warm_us < WARM_UP_US:
        begin = originals.now()
        queue.run(calls)
        (wall_us,) = call.largest((originals.now() - begin) * 1e6)
        warm_us += wall_us
    call.doing("measures")
    count = _between(LEAST_BLOCKS, budget_s * 1e6 / wall_us, MOST_BLOCKS)
    blocks = [queue.run_in_time(calls) for _ in range(count)]
    conditions = _conditions(call)
    call.meet()
    recorded = RankTime(time_us=round(fmean(fmean(block.times_us) for block in blocks), 6))
    if call.on_gpu:
        from pytest_gpuperf.features.ranks.profiler_capture import recorded_time

        call.doing("records its kernels")
        recorded = recorded_time(call, recorded.time_us)
    late = any(block.late for block in blocks)
    return TimesOfRank([block.times_us for block in blocks], late, recorded, conditions)


def _between(least: int, wanted: float, most: int) -> int:
    return min(max(least, math.ceil(wanted)), most)


def _times_by_host(call: RankedCall, calls: int) -> list[float]:
    times = []
    for _ in range(calls):
        call.barrier()
        begin = originals.now()
        call()
        times.append((originals.now() - begin) * 1e6)
    return times


def _conditions(call: RankedCall) -> Conditions | None:
    if not call.on_gpu:
        return None
    from msgspec.structs import replace

    from pytest_gpuperf.measure.device.conditions import Nvml
    from pytest_gpuperf.measure.device.gpu_identity import gpu_info

    found = Nvml(gpu_info().uuid).conditions()
    if found is not None and found.other_processes and not call.rank:
        # The session is on the first GPU, too, and waits.
        return replace(found, other_processes=found.other_processes - 1)
    return found
