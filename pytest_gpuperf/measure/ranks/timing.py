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

from pytest_gpuperf.measure.device import kept
from pytest_gpuperf.measure.ranks.messages import TimesOfRank
from pytest_gpuperf.measure.timing.graph import block_gpu
from pytest_gpuperf.records.ranks import RankTime

if TYPE_CHECKING:
    from pytest_gpuperf.measure.ranks.call import RankedCall
    from pytest_gpuperf.records import Conditions

BLOCK_US = 5000
"""Length of a block, from which a few calls are enough."""
LEAST_CALLS, MOST_CALLS = 5, 50
LEAST_BLOCKS, MOST_BLOCKS = 10, 40
WARM_UP_US = 300_000
FIRST_QUEUE_US = 20_000
MOST_QUEUE_US = 200_000
ATTEMPTS = 3
"""Attempts at a block whose calls the host has queued too late."""


@dataclass
class _Queue:
    """Time for which a kernel blocks the GPU while the host queues a block."""

    block_us: float = 0.0
    late: bool = False


def time_call(call: RankedCall, budget_s: float) -> TimesOfRank:
    """Warm up, then time blocks of calls.

    Args:
        call: The call.
        budget_s: Seconds for the blocks, if there are more than `LEAST_BLOCKS`.
    """
    call.doing("warms up")
    for _ in range(2):
        call()
    call.meet()
    queue = _Queue(FIRST_QUEUE_US)
    begin = kept.now()
    first = _block(call, 3, queue)
    (time_us, wall_us) = call.largest(fmean(first), (kept.now() - begin) * 1e6 / 3)
    calls = _between(LEAST_CALLS, BLOCK_US / time_us, MOST_CALLS)
    warm_us = 0.0
    while warm_us < WARM_UP_US:
        begin = kept.now()
        (time_us,) = call.largest(fmean(_block(call, calls, queue)))
        (wall_us,) = call.largest((kept.now() - begin) * 1e6)
        warm_us += wall_us
    call.doing("measures")
    blocks = [
        _block_in_time(call, calls, queue)
        for _ in range(_between(LEAST_BLOCKS, budget_s * 1e6 / wall_us, MOST_BLOCKS))
    ]
    conditions = _conditions(call)
    call.meet()
    mean_us = fmean(map(fmean, blocks))
    recorded = RankTime(time_us=round(mean_us, 6))
    if call.on_gpu:
        from pytest_gpuperf.measure.ranks.recording import recorded_time

        call.doing("records its kernels")
        recorded = recorded_time(call, recorded.time_us)
    return TimesOfRank(blocks, late=queue.late, recorded=recorded, conditions=conditions)


def _between(least: int, wanted: float, most: int) -> int:
    return min(max(least, math.ceil(wanted)), most)


def _block_in_time(call: RankedCall, calls: int, queue: _Queue) -> list[float]:
    """Return a block that all hosts queued ahead; after some attempts one that they did not."""
    for _ in range(ATTEMPTS):
        queue.late = False
        times = _block(call, calls, queue)
        if not queue.late:
            break
        queue.block_us = min(2 * queue.block_us, MOST_QUEUE_US)
    return times


def _block(call: RankedCall, calls: int, queue: _Queue) -> list[float]:
    """Return the microseconds of each call of a block, on this rank."""
    times = _block_on_gpu(call, calls, queue) if call.on_gpu else _block_on_host(call, calls)
    (late,) = call.largest(queue.late)
    queue.late = bool(late)
    return times


def _block_on_gpu(call: RankedCall, calls: int, queue: _Queue) -> list[float]:
    stream = kept.current_stream()
    pairs = [(kept.event(), kept.event()) for _ in range(calls)]
    queued = kept.event()
    call.meet()
    begin = kept.now()
    block_gpu(queue.block_us)
    kept.record(queued, stream)
    for start, end in pairs:
        call.barrier()
        kept.record(start, stream)
        call()
        kept.record(end, stream)
    queue.late = kept.has_passed(queued)
    host_us = (kept.now() - begin) * 1e6
    kept.synchronize()
    if not queue.late:
        queue.block_us = min(max(2 * host_us, 100.0), MOST_QUEUE_US)
    return [kept.elapsed_us(start, end) for start, end in pairs]


def _block_on_host(call: RankedCall, calls: int) -> list[float]:
    times = []
    for _ in range(calls):
        call.barrier()
        begin = kept.now()
        call()
        times.append((kept.now() - begin) * 1e6)
    return times


def _conditions(call: RankedCall) -> Conditions | None:
    if not call.on_gpu:
        return None
    import os

    from msgspec.structs import replace

    from pytest_gpuperf.measure.device.conditions import Nvml
    from pytest_gpuperf.measure.device.gpu import gpu_info
    from pytest_gpuperf.measure.device.lock import HELD_ENV

    uuid = gpu_info().uuid
    found = Nvml(uuid).conditions()
    if found is not None and found.other_processes and os.environ.get(HELD_ENV) == uuid:
        # The session is on this GPU, too, and waits.
        return replace(found, other_processes=found.other_processes - 1)
    return found
