"""Time one callable: choose a recipe, warm up, measure blocks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import Conditions, Timing, TimingMode, WarmUp
from pytest_gpuperf.timing.batch import (
    MAX_CALLS,
    Batch,
    ColdBatch,
    HotBatch,
    NotCapturableError,
    QueuedBatch,
    block_gpu,
    capture,
    elapsed_us,
    event,
    nothing_launched,
)
from pytest_gpuperf.timing.estimate import interquartile_range, trimmed_mean
from pytest_gpuperf.timing.warm_up import until_steady

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BLOCK_US = 5_000
"""Long enough that the ends of a block do not count, short enough for many of them."""
COLD_CALLS = 20
"""A flush takes tens of microseconds, so fewer calls fill a cold block."""
QUEUED_CALLS = 50
"""Pairs that are queued at once; the GPU is blocked while the host queues them."""
LEAST_BLOCKS = 10
MOST_BLOCKS = 100
MOST_COLD_SPREAD_PCT = 100.0
"""A cold time is a difference, and the noise of the flushes does not shrink with it."""
WARM_UP_CAP_S = 3.0


class Timer:
    """Times callables on the current CUDA device.

    Args:
        l2_bytes: Size of the device's L2, in bytes; a cold timing flushes twice as much.
        budget_s: Seconds that the blocks of one timing may take, by the wall clock: flushes and kernels that
            block the GPU count, the warm-up does not. At least `LEAST_BLOCKS` blocks are taken all the same.
        conditions: Reads the state of the GPU after a timing.
    """

    def __init__(self, l2_bytes: int, budget_s: float, conditions: Callable[[], Conditions | None]) -> None:
        self._flush_bytes = 2 * l2_bytes
        self._budget_s = budget_s
        self._conditions = conditions

    def warm_up(self, fn: Callable[[], Any]) -> WarmUp:
        """Run `fn` until its time is steady."""
        batch, _, _ = self._batch(fn, "auto")
        return until_steady(batch, WARM_UP_CAP_S)

    def time(self, fn: Callable[[], Any], *, mode: str, bytes: int = 0, flops: int = 0) -> Timing:
        """Warm up, then time blocks of calls until the budget is spent.

        Args:
            fn: Takes no arguments; is called many times.
            mode: `auto`, `hot`, `cold` or `queued`.
            bytes: Bytes a call moves, kept in the record.
            flops: Operations of a call, kept in the record.

        Raises:
            GpuperfError: Unknown mode, a mode that needs a capture and gets none, a callable that
                launches nothing, or one too short to be timed cold.
        """
        batch, used, reason = self._batch(fn, mode)
        warm_up = until_steady(batch, WARM_UP_CAP_S)
        blocks: list[float] = []
        end = time.perf_counter() + self._budget_s
        while len(blocks) < LEAST_BLOCKS or (len(blocks) < MOST_BLOCKS and time.perf_counter() < end):
            blocks.append(batch.run())
        time_us, spread_pct = _estimate(blocks, used)
        return Timing(
            mode=used,
            time_us=time_us,
            spread_pct=spread_pct,
            blocks_us=tuple(round(block, 6) for block in blocks),
            calls_per_block=batch.calls,
            l2_flushed=used == "cold",
            not_captured=reason,
            bytes=bytes,
            flops=flops,
            warm_up=warm_up,
            conditions=self._conditions(),
        )

    def _batch(self, fn: Callable[[], Any], mode: str) -> tuple[Batch, TimingMode, str]:
        """The batch for a mode, the mode it came to, and why it fell back to that."""
        if mode not in ("auto", "hot", "cold", "queued"):
            raise GpuperfError(f"the timing mode is {mode!r}", expected="auto, hot, cold or queued")
        call_us, enqueue_us = probe(fn)
        calls = max(1, min(MAX_CALLS, round(BLOCK_US / call_us)))
        reason = ""
        try:
            # A few calls tell whether it can be captured, and whether it launches anything.
            capture(fn, 2)
            if mode == "cold":
                return ColdBatch(fn, min(calls, COLD_CALLS), self._flush_bytes), "cold", ""
            if mode != "queued":
                return HotBatch(fn, calls), "hot", ""
        except NotCapturableError as error:
            if mode in ("hot", "cold"):
                raise GpuperfError(
                    f"mode {mode!r} needs a callable that a CUDA graph can capture: {error}",
                    next_step="use mode='queued', or keep host synchronisation out of the callable",
                ) from error
            # Where `queued` was asked for, nothing fell back to it.
            reason = str(error) if mode == "auto" else ""
        return QueuedBatch(fn, min(calls, QUEUED_CALLS), enqueue_us), "queued", reason


def _estimate(blocks: Sequence[float], mode: TimingMode) -> tuple[float, float]:
    """Time in microseconds a call and spread in per cent of it.

    Raises:
        GpuperfError: A cold time that is lost in the noise of the flushes.
    """
    mean, spread = trimmed_mean(blocks), interquartile_range(blocks)
    if mode == "cold" and (mean <= 0 or 100 * spread > MOST_COLD_SPREAD_PCT * mean):
        raise GpuperfError(
            f"the callable is too short to be timed cold: {mean:.3g} µs a call, with a spread of "
            f"{spread:.3g} µs from the flushes that are taken off",
            expected="a time above that spread",
            next_step="use mode='hot'",
        )
    return mean, 100 * spread / mean


def probe(fn: Callable[[], Any]) -> tuple[float, float]:
    """Call `fn` a few times: compile, autotune, allocate, and see how long it takes.

    Returns:
        Microseconds a call on the GPU, roughly, and microseconds the host needs to queue one.

    Raises:
        GpuperfError: The callable launched nothing on the GPU.
    """
    for _ in range(3):
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
    return call_us, enqueue_us
