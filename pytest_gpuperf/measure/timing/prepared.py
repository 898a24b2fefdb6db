"""Prepare a callable for timing: compile, capture and warm up, then run block by block."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.activity import detach
from pytest_gpuperf.measure.timing.autotuners import watched
from pytest_gpuperf.measure.timing.batch import MAX_CALLS, ColdBatch, HostBatch, HotBatch, QueuedBatch
from pytest_gpuperf.measure.timing.graph import (
    NotCapturableError,
    block_gpu,
    capture,
    elapsed_us,
    event,
    nothing_launched,
)
from pytest_gpuperf.measure.timing.warm_up import until_steady

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.measure.timing.batch import Batch, Block
    from pytest_gpuperf.measure.timing.stamp import Stamps
    from pytest_gpuperf.records import TimingMode, WarmUp

BLOCK_US = 5_000
"""Long enough that the ends of a block do not matter, short enough for many blocks."""
COLD_CALLS = 20
"""A flush takes tens of microseconds, so fewer calls fill a cold block."""
QUEUED_CALLS = 50
"""Pairs queued at once; the GPU is blocked while the host queues them."""
WARM_UP_CAP_S = 3.0
MODES = ("auto", "hot", "cold", "queued", "host")


@dataclass(frozen=True)
class Prepared:
    """A callable with its batch."""

    batch: Batch
    mode: TimingMode
    not_captured: str = ""
    """Reason that no graph could be captured, unless the mode does without."""
    autotuned: tuple[str, ...] = ()
    """Picks of the autotuners: `kernel: configuration`."""

    def warm_up(self) -> WarmUp:
        """Run blocks until time and SM clock are steady."""
        return until_steady(self.batch, WARM_UP_CAP_S)

    def block(self) -> Block:
        """Run one block."""
        return self.batch.run()


def prepare(fn: Callable[[], Any], mode: str, *, flush_bytes: int, stamps: Stamps | None) -> Prepared:
    """Compile and capture a callable.

    Args:
        fn: A callable without arguments; it is called many times.
        mode: `auto`, `hot`, `cold`, `queued` or `host`.
        flush_bytes: Bytes that a cold batch writes before each call, at least twice the L2.
        stamps: Stamps before and after each block; None for no stamps.

    Raises:
        GpuperfError: Unknown mode, a mode that needs a capture and gets none, or a callable that launches
            nothing.
    """
    if mode not in MODES:
        raise GpuperfError(f"the timing mode is {mode!r}", expected=f"one of {', '.join(MODES)}")
    # While CUPTI is attached, each node of a graph takes longer.
    detach()
    call_us, enqueue_us, autotuned = _probe(fn)
    reason = ""
    try:
        # A few calls show if it can be captured, and if it launches anything.
        capture(lambda: (fn(), fn()))
        if mode == "cold":
            batch = ColdBatch(fn, _calls(call_us, COLD_CALLS), flush_bytes, stamps)
            return Prepared(batch, "cold", autotuned=autotuned)
        if mode in ("auto", "hot"):
            return Prepared(HotBatch(fn, _calls(call_us, MAX_CALLS), stamps), "hot", autotuned=autotuned)
    except NotCapturableError as error:
        if mode in ("hot", "cold"):
            raise GpuperfError(
                f"mode {mode!r} needs a callable that a CUDA graph can capture: {error}",
                next_step="use mode='queued', or keep host synchronisation out of the callable",
            ) from error
        # A requested `queued` is not a fallback.
        reason = str(error) if mode == "auto" else ""
    if mode == "host":
        calls = _calls(max(call_us, enqueue_us), MAX_CALLS)
        return Prepared(HostBatch(fn, calls), "host", autotuned=autotuned)
    queued = QueuedBatch(fn, _calls(call_us, QUEUED_CALLS), enqueue_us, stamps)
    return Prepared(queued, "queued", reason, autotuned)


def _calls(call_us: float, most: int) -> int:
    return max(1, min(most, round(BLOCK_US / call_us)))


def _probe(fn: Callable[[], Any]) -> tuple[float, float, tuple[str, ...]]:
    """Call `fn` a few times: compile, autotune, allocate, and estimate its time.

    Returns:
        Approximate microseconds of a call on the GPU; microseconds that the host needs to queue one; the
        picks of autotuners.

    Raises:
        GpuperfError: The callable launched nothing on the GPU.
    """
    fn()
    with watched() as picked:
        fn()
    fn()
    torch.cuda.synchronize()
    start, end = event(), event()
    block_gpu(1000)
    start.record()
    begin = time.perf_counter()
    for _ in range(5):
        fn()
    enqueue_us = (time.perf_counter() - begin) / 5 * 1e6
    end.record()
    torch.cuda.synchronize()
    call_us = elapsed_us(start, end) / 5
    if call_us <= 0:
        raise nothing_launched()
    return call_us, enqueue_us, tuple(f"{kernel}: {config}" for kernel, config in sorted(picked.items()))
