"""Prepare a callable for timing: compile, capture and warm up, then run block by block."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.libcupti import CuptiError, detach
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.device.originals import finish
from pytest_gpuperf.measure.timing.batch import (
    MAX_CALLS,
    SHORT_IN_GAPS,
    USUAL_GAP_US,
    ColdBatch,
    HostBatch,
    HotBatch,
    QueuedBatch,
)
from pytest_gpuperf.measure.timing.graph import (
    NotCapturableError,
    NothingLaunchedError,
    OutOfMemoryError,
    block_gpu,
    capture,
    nothing_launched,
)
from pytest_gpuperf.measure.timing.kernels_batch import KernelsBatch
from pytest_gpuperf.measure.timing.sm_clock import until_steady

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.measure.call_memory import CallElsewhere
    from pytest_gpuperf.measure.timing.batch import Batch, Block
    from pytest_gpuperf.measure.timing.graph import CapturedCalls
    from pytest_gpuperf.measure.timing.sm_clock import Stamps, Warmed
    from pytest_gpuperf.records import TimingMode

BLOCK_US = 5_000
"""Long enough that the ends of a block do not matter, short enough for many blocks."""
COLD_CALLS = 20
"""A flush takes tens of microseconds, so fewer calls fill a cold block."""
QUEUED_CALLS = 50
"""Pairs queued at once; the GPU is blocked while the host queues them."""
FEW_CALLS = 10
"""Calls of a graph that is too short for the gaps of a long one."""
WARM_UP_CAP_S = 3.0
_NO_USERS_SEED = 0x6770_7570_6572_6621
MODES = ("auto", "hot", "cold", "queued", "kernels", "host")


@dataclass(frozen=True)
class PreparedCall:
    """A callable with its batch."""

    batch: Batch
    mode: TimingMode
    not_captured: str = ""
    """Reason that no graph could be captured, unless the mode was asked for."""
    not_recorded: str = ""
    """Reason that CUPTI could not record the kernels of a callable that cannot be captured."""

    fn: Callable[[], Any] | None = None
    """None if its single calls are not recorded: CUPTI records all of them."""
    enqueue_us: float = 0.0
    elsewhere: Callable[[], CallElsewhere] | None = None
    """Returns the callable on tensors at other places in memory; None if it has none."""
    captured: CapturedCalls | None = None
    """The calls in the graph; None without a graph."""

    def warm_up(self) -> Warmed:
        """Run blocks until time and SM clock are steady."""
        return until_steady(self.batch, WARM_UP_CAP_S, by_host=self.mode == "host")

    def block(self, *, recorded: bool = False) -> Block:
        """Run one block.

        Args:
            recorded: True to take its time from CUPTI's records.

        Raises:
            CuptiError: CUPTI is missing, or another profiler holds it.
        """
        return self.batch.run_recorded(1)[0] if recorded else self.batch.run()

    def is_short(self) -> bool:
        """Return True if CUPTI times a call better than events: one short kernel, hot.

        Next to another process, unchanged short kernels differ by up to 1.5 % from one restart to the next by
        events, which include gaps in the graph (H100). The gaps between several kernels are part of the call.
        A cold block is mostly flushes, so CUPTI gains nothing there.
        """
        if self.mode != "hot" or self.captured is None or not self.captured.single_nodes:
            return False
        # The first replay uploads the graph.
        if min(self.block().time_us for _ in range(3)) >= SHORT_IN_GAPS * USUAL_GAP_US:
            return False
        try:
            self.batch.run_recorded(2)
        except CuptiError:
            return False
        return True

    def in_short_graph_us(self) -> float:
        """Return the microseconds of a call in a graph of a few.

        In a long graph, gaps between streams that wait for each other grow: from 1 µs a call in one of 10 to
        8 µs in one of 1,000, on an H100.
        """
        assert self.fn is not None
        batch = HotBatch(self.fn, FEW_CALLS)
        return min(batch.run().time_us for _ in range(2))  # the first replay uploads the graph


def prepare(fn: Callable[[], Any], mode: str, *, flush_bytes: int, stamps: Stamps | None) -> PreparedCall:
    """Compile and capture a callable.

    In mode `auto` a callable that cannot be captured, or launches nothing on the current stream, is timed by
    its kernels. Without CUPTI it is `queued`; the host's clock times it if it waits for the GPU.

    Args:
        fn: A callable without arguments; it is called many times.
        mode: `auto`, `hot`, `cold`, `queued`, `kernels` or `host`.
        flush_bytes: Bytes that a cold batch writes before each call, at least twice the L2.
        stamps: Stamps before and after each block; None for no stamps.

    Raises:
        GpuperfError: Unknown mode, a mode that the callable does not allow, or a callable that launches
            nothing.
    """
    if mode not in MODES:
        raise GpuperfError(f"the timing mode is {mode!r}", expected=f"one of {', '.join(MODES)}")
    # While CUPTI is attached, each node of a graph takes longer.
    detach()
    probe = _probe(fn)
    if mode == "kernels":
        return PreparedCall(KernelsBatch(fn, stamps), "kernels")
    if mode == "host":
        _refuse_nothing_launched(fn)
        return PreparedCall(_host_batch(fn, probe), "host")
    elsewhere = False
    try:
        # A few calls show if it can be captured, and if it launches anything.
        _try_capture(fn)
        if mode != "queued":
            batch = (
                ColdBatch(fn, _calls(probe.call_us, COLD_CALLS), flush_bytes, stamps)
                if mode == "cold"
                else HotBatch(fn, _calls(probe.call_us, MAX_CALLS), stamps)
            )
            return PreparedCall(
                batch,
                "cold" if mode == "cold" else "hot",
                fn=fn,
                enqueue_us=probe.enqueue_us,
                captured=batch.captured,
            )
        reason = ""
    except NotCapturableError as error:
        reason = str(error)
    except OutOfMemoryError as error:
        if mode != "queued":
            raise
        reason = error.found
    except NothingLaunchedError:
        elsewhere, reason = True, "it launches nothing on the current stream"
        if mode != "auto":
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
    queued = _queued_batch(fn, probe, stamps)
    return PreparedCall(queued, "queued", fn=fn, enqueue_us=probe.enqueue_us)


def rehearse(fn: Callable[[], Any]) -> None:
    """Call `fn` once, outside a capture, and find what a graph of it cannot have.

    A capture that fails in a library may leave it broken: after one, cuSOLVER's `syevj` fails in each plain
    call, too (torch 2.11). A graph goes on with the random numbers of the generator, whatever seed it sets.

    Raises:
        NotCapturableError: `fn` waits for the GPU within torch, or sets a seed.
    """
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    state, debug_mode = generator.get_state(), torch.cuda.get_sync_debug_mode()
    generator.manual_seed(_NO_USERS_SEED)
    try:
        with warnings.catch_warnings():
            # torch says that it does not see all waits.
            warnings.simplefilter("ignore")
            torch.cuda.set_sync_debug_mode("error")
        fn()
        own_seed = generator.initial_seed() != _NO_USERS_SEED
    except RuntimeError as error:
        if "synchronizing" not in str(error):
            raise
        raise NotCapturableError("it waits for the GPU") from error
    finally:
        torch.cuda.set_sync_debug_mode(debug_mode)
        generator.set_state(state)
    if own_seed:
        raise NotCapturableError("it sets torch's seed, which a graph would not set again")


def _try_capture(fn: Callable[[], Any]) -> None:
    """Capture two calls, one after the other: a call may depend on the one before."""

    def calls() -> None:
        # Without their values, whose memory would be needed twice.
        fn()
        fn()

    # torch's own variable; an allocation during a capture would break it.
    if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        raise NotCapturableError("PYTORCH_NO_CUDA_MEMORY_CACHING is set, and a graph needs cached memory")
    rehearse(fn)
    capture(calls)


def waits_for_gpu(fn: Callable[[], Any]) -> bool:
    """Return True if `fn` returns only when the GPU has finished earlier work."""
    originals.synchronize()
    begin = originals.now()
    fn()
    host_us = (originals.now() - begin) * 1e6
    originals.synchronize()
    # Long enough that a host that is slow for once does not look like one that waits.
    block_gpu(min(max(20_000, 10 * host_us), 500_000))
    passed = originals.event()
    originals.record(passed)
    fn()
    waited = originals.has_passed(passed)
    originals.synchronize()
    return waited


def _not_captured(
    fn: Callable[[], Any], probe: _Probe, stamps: Stamps | None, reason: str, *, elsewhere: bool
) -> PreparedCall:
    """Prepare a callable without a graph."""
    try:
        return PreparedCall(KernelsBatch(fn, stamps), "kernels", reason)
    except CuptiError as error:
        if elsewhere or waits_for_gpu(fn):
            return PreparedCall(_host_batch(fn, probe), "host", reason, error.found)
        return PreparedCall(_queued_batch(fn, probe, stamps), "queued", reason, error.found)


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
    block_gpu(1000)
    originals.record(start, stream)
    begin = originals.now()
    for _ in range(5):
        fn()
    enqueue_us = (originals.now() - begin) / 5 * 1e6
    originals.record(end, stream)
    originals.synchronize()
    call_us = max(originals.elapsed_us(start, end) / 5, 0.1)
    return _Probe(call_us, enqueue_us)
