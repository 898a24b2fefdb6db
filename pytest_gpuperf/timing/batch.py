"""A block of many calls between CUDA events: what every timing is made of."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Protocol

import torch

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_CALLS = 2000
"""Capturing and instantiating a graph costs tens of microseconds a node; more nodes buy nothing."""
SLEEP_CYCLES_PER_US = 2000
"""More than any SM clock in MHz, so that a blocking kernel lasts at least as long as asked for."""


class Batch(Protocol):
    """Runs a block of calls and says how long one took."""

    calls: int

    def run(self) -> float:
        """Run one block and wait for it.

        Returns:
            Microseconds a call.
        """


class NotCapturableError(Exception):
    """The callable cannot be captured into a CUDA graph; says why."""


class HotBatch:
    """Events around one graph of many calls, caches as the call before left them."""

    def __init__(self, fn: Callable[[], Any], calls: int) -> None:
        self.calls = calls
        self._graph = capture(fn, calls)

    def run(self) -> float:
        """One replay of the graph."""
        return replay_us(self._graph) / self.calls


class ColdBatch:
    """A graph of (flush, call) pairs less a graph of the flushes alone.

    The flush writes `flush_bytes`, at least twice the L2, so that nothing of the input is left there.
    """

    def __init__(self, fn: Callable[[], Any], calls: int, flush_bytes: int) -> None:
        self.calls = calls
        buffer = torch.empty(flush_bytes, dtype=torch.int8, device="cuda")

        def flush_and_call() -> None:
            buffer.zero_()
            fn()

        self._both = capture(flush_and_call, calls)
        self._flushes = capture(buffer.zero_, calls)
        self._buffer = buffer  # the graphs write to it

    def run(self) -> float:
        """One replay of each graph."""
        return (replay_us(self._both) - replay_us(self._flushes)) / self.calls


class QueuedBatch:
    """An event pair around each call, all queued behind a kernel that blocks the GPU meanwhile.

    Without the blocking kernel the pairs of short calls would time the host, not the GPU. A callable
    that synchronises by itself breaks the queue: its time then holds its waiting.
    """

    def __init__(self, fn: Callable[[], Any], calls: int, enqueue_us: float) -> None:
        self.calls = calls
        self._fn = fn
        # Twice the time the host needs to queue everything, at most 0.2 s.
        self._block_us = min(2 * enqueue_us * calls, 200_000)
        self._pairs = [(event(), event()) for _ in range(calls)]

    def run(self) -> float:
        """One pass over the pairs."""
        block_gpu(self._block_us)
        for start, end in self._pairs:
            start.record()
            self._fn()
            end.record()
        torch.cuda.synchronize()
        return sum(elapsed_us(start, end) for start, end in self._pairs) / self.calls


def event() -> torch.cuda.Event:
    """A CUDA event that keeps the time."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def elapsed_us(start: torch.cuda.Event, end: torch.cuda.Event) -> float:
    """Microseconds between two events that have passed."""
    return 1e3 * float(start.elapsed_time(end))


def capture(fn: Callable[[], Any], calls: int) -> torch.cuda.CUDAGraph:
    """Capture `calls` calls into one CUDA graph.

    Raises:
        NotCapturableError: The callable synchronises, allocates outside torch or launches elsewhere.
        GpuperfError: The callable launched nothing on the GPU.
    """
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                for _ in range(calls):
                    fn()
        except Exception as error:
            _recover()
            # Ending a broken capture fails too; the first failure is the one that says why.
            first = error.__context__ or error
            raise NotCapturableError(str(first).strip().split("\n")[0] or type(first).__name__) from error
    if any("CUDA Graph is empty" in str(warning.message) for warning in caught):
        raise nothing_launched()
    return graph


def _recover() -> None:
    """Make torch usable after a capture that failed.

    Such a capture leaves the random generators in capture mode, where `torch.randn` raises; the end of the
    next good one takes them out of it.
    """
    torch.cuda.synchronize()
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
        torch.zeros(1, device="cuda")


def block_gpu(microseconds: float) -> None:
    """Queue a kernel that keeps the GPU busy for at least this long."""
    torch.cuda._sleep(int(microseconds * SLEEP_CYCLES_PER_US))  # type: ignore[no-untyped-call]


def nothing_launched() -> GpuperfError:
    """The error for a callable that does no work on the GPU."""
    return GpuperfError(
        "the callable launched nothing on the GPU",
        expected="a callable that launches kernels on the current CUDA stream",
        next_step="put its tensors on gpuperf.device",
    )


def replay_us(graph: torch.cuda.CUDAGraph) -> float:
    """Microseconds of one replay, the host's launch of the graph hidden behind a blocking kernel."""
    start, end = event(), event()
    block_gpu(100)
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return elapsed_us(start, end)
