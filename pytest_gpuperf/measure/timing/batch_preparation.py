"""Prepare a callable for timing: compile it, capture it, and choose the batch that times it."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.libcupti import CuptiError, detach
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.device.originals import finish
from pytest_gpuperf.measure.timing.batch import (
    MAX_CALLS,
    ColdBatch,
    HostBatch,
    HotBatch,
    QueuedBatch,
)
from pytest_gpuperf.measure.timing.graph import (
    NotCapturableError,
    NothingLaunchedError,
    OutOfMemoryError,
    capture,
    hold_gpu,
    holds_tensors,
    nothing_launched,
)
from pytest_gpuperf.measure.timing.kernels_batch import KernelsBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.measure.timing.batch import Batch
    from pytest_gpuperf.measure.timing.sm_clock import Stamps

BLOCK_US = 5_000
"""Long enough that the ends of a block do not matter, short enough for many blocks."""
COLD_CALLS = 20
"""A flush takes tens of microseconds, so fewer calls fill a cold block."""
QUEUED_CALLS = 50
"""Pairs queued at once; the GPU is blocked while the host queues them."""
_NO_USERS_SEED = 0x6770_7570_6572_6621


def prepare(fn: Callable[[], Any], mode: str, *, flush_bytes: int, stamps: Stamps | None) -> Batch:
    """Compile and capture a callable.

    In mode `auto` a callable that cannot be captured, or launches nothing on the current stream, is timed by
    its kernels. Without CUPTI it is `queued`; the host's clock times it if it waits for the GPU.

    Args:
        fn: A callable without arguments; it is called many times.
        mode: `auto`, `hot`, `cold`, `queued`, `kernels` or `host`.
        flush_bytes: Bytes that a cold batch writes before each call, at least twice the L2.
        stamps: Stamps before and after each block; None for no stamps.

    Raises:
        GpuperfError: A mode that the callable does not allow, or a callable that launches nothing.
    """
    # While CUPTI is attached, each node of a graph takes longer.
    detach()
    probe = _probe(fn)
    if mode == "kernels":
        return KernelsBatch(fn, stamps)
    if mode == "host":
        _refuse_nothing_launched(fn)
        return _host_batch(fn, probe)
    elsewhere = False
    try:
        # A few calls show if it can be captured, and if it launches anything.
        trial = _try_capture(fn)
        if mode != "queued":
            batch: Batch = (
                ColdBatch(fn, _calls(probe.call_us, COLD_CALLS), flush_bytes, stamps)
                if mode == "cold"
                else HotBatch(fn, _calls(probe.call_us, MAX_CALLS), stamps)
            )
            batch.enqueue_us, batch.trial = probe.enqueue_us, trial
            return batch
        reason = ""
    except NotCapturableError as error:
        reason = str(error)
    except OutOfMemoryError as error:
        if mode != "queued":
            raise
        reason = error.found
    except NothingLaunchedError:
        elsewhere, reason = True, "it launches nothing on the current stream"
        if mode == "queued":
            raise
    if mode in ("hot", "cold"):
        raise GpuperfError(
            f"mode {mode!r} needs a callable that a CUDA graph can capture: {reason}",
            next_step="use mode='kernels', or keep host synchronisation out of the callable",
        )
    if mode == "auto":
        return _not_captured(fn, probe, stamps, reason, elsewhere=elsewhere)
    if reason and waits_for_gpu(fn):
        raise GpuperfError(
            "mode 'queued' needs a callable that does not wait for the GPU",
            next_step="use mode='kernels', or keep host synchronisation out of the callable",
        )
    return _queued_batch(fn, probe, stamps)


def rehearse(fn: Callable[[], Any]) -> None:
    """Call `fn` once, outside a capture, and find what a graph of it cannot have.

    A capture that fails in a library may leave it broken: after one, cuSOLVER's `syevj` fails in each plain
    call, too (torch 2.11). It ends in the middle of `fn`, whose next call may then fail, such as a step with
    `torch.amp.GradScaler`. So waits are warned of, for other threads too, and `fn` runs to its end. A graph
    goes on with the random numbers of the generator, whatever seed it sets.

    Raises:
        NotCapturableError: `fn` waits within torch, or sets a seed; or torch does not cache memory.
    """
    # Without it a capture breaks (torch's own variable), or to free memory of a graph may end the process
    # (2 of 23 callables under cudaMallocAsync, torch 2.11).
    uncached = os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING")
    if uncached or torch.cuda.get_allocator_backend() == "cudaMallocAsync":
        raise NotCapturableError("a graph needs torch's caching allocator, which is not in use")
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    state, debug_mode = generator.get_state(), torch.cuda.get_sync_debug_mode()
    generator.manual_seed(_NO_USERS_SEED)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            torch.cuda.set_sync_debug_mode("warn")
            fn()
            own_seed = generator.initial_seed() != _NO_USERS_SEED
        finally:
            torch.cuda.set_sync_debug_mode(debug_mode)
            generator.set_state(state)
    # torch also says that it does not see all waits.
    if any("called a synchronizing" in str(one.message) for one in told):
        raise NotCapturableError("it waits for the GPU")
    if own_seed:
        raise NotCapturableError("it sets torch's seed, which a graph would not set again")


def _try_capture(fn: Callable[[], Any]) -> torch.cuda.CUDAGraph | None:
    """Capture two calls, one after the other: a call may depend on the one before.

    Returns:
        The graph, if the calls have left a tensor in its memory, as a recurrent cell its state: the next
        graph reads it there, even when its own calls have replaced that tensor.
    """

    def calls() -> None:
        # Without their values, whose memory would be needed twice.
        fn()
        fn()

    rehearse(fn)
    graph = capture(calls)
    return graph if holds_tensors(graph) else None


def waits_for_gpu(fn: Callable[[], Any]) -> bool:
    """Return True if `fn` returns only when the GPU has finished earlier work."""
    originals.synchronize()
    begin = originals.now()
    fn()
    host_us = (originals.now() - begin) * 1e6
    originals.synchronize()
    # Long enough that a host that is slow for once does not look like one that waits.
    hold_gpu(min(max(20_000, 10 * host_us), 500_000))
    passed = originals.event()
    originals.record(passed)
    fn()
    waited = originals.has_passed(passed)
    originals.synchronize()
    return waited


def _not_captured(
    fn: Callable[[], Any], probe: _Probe, stamps: Stamps | None, reason: str, *, elsewhere: bool
) -> Batch:
    """Prepare a callable without a graph."""
    batch: Batch
    try:
        batch = KernelsBatch(fn, stamps)
    except CuptiError as error:
        waits = elsewhere or waits_for_gpu(fn)
        batch = _host_batch(fn, probe) if waits else _queued_batch(fn, probe, stamps)
        batch.not_recorded, batch.single_calls = error.found, False
    batch.not_captured = reason
    return batch


def _refuse_nothing_launched(fn: Callable[[], Any]) -> None:
    """Refuse a callable that launches nothing: on the current stream or, if CUPTI can tell, on any."""
    try:
        _try_capture(fn)
    except (NotCapturableError, OutOfMemoryError):
        return
    except NothingLaunchedError:
        try:
            KernelsBatch(fn)
        except CuptiError:
            # It is not known that something was launched elsewhere.
            raise nothing_launched() from None


def _host_batch(fn: Callable[[], Any], probe: _Probe) -> HostBatch:
    return HostBatch(fn, _calls(max(probe.call_us, probe.enqueue_us), MAX_CALLS))


def _queued_batch(fn: Callable[[], Any], probe: _Probe, stamps: Stamps | None) -> QueuedBatch:
    return QueuedBatch(fn, _calls(probe.call_us, QUEUED_CALLS), probe.enqueue_us, stamps)


def _calls(call_us: float, most: int) -> int:
    return max(1, min(most, round(BLOCK_US / call_us)))


class _Probe(NamedTuple):
    call_us: float
    """Approximate microseconds of a call on the current stream."""
    enqueue_us: float
    """Microseconds that the host needs to queue a call."""


def _probe(fn: Callable[[], Any]) -> _Probe:
    """Call `fn` a few times: compile, autotune, allocate, and estimate its time."""
    fn()
    fn()
    finish(fn())
    start, end, stream = originals.event(), originals.event(), originals.current_stream()
    hold_gpu(1000)
    originals.record(start, stream)
    begin = originals.now()
    for _ in range(5):
        fn()
    enqueue_us = (originals.now() - begin) / 5 * 1e6
    originals.record(end, stream)
    originals.synchronize()
    call_us = max(originals.elapsed_us(start, end) / 5, 0.1)
    return _Probe(call_us, enqueue_us)
