"""Parts of batches: CUDA graphs, events and the kernel that blocks the GPU."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Callable

SLEEP_CYCLES_PER_US = 2000
"""More than any SM clock in MHz, so that a blocking kernel lasts at least as long as requested."""


class NotCapturableError(Exception):
    """The callable cannot be captured into a CUDA graph; the text is the reason."""


class NothingLaunchedError(GpuperfError):
    """The callable launched nothing on the current stream, or nothing at all."""


def event() -> torch.cuda.Event:
    """Return a CUDA event with timing."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def elapsed_us(start: torch.cuda.Event, end: torch.cuda.Event) -> float:
    """Return the microseconds between two events that have passed."""
    return 1e3 * float(start.elapsed_time(end))


def capture(body: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """Capture the launches of `body` into one CUDA graph.

    Raises:
        NotCapturableError: `body` synchronises, allocates outside torch or launches elsewhere.
        NothingLaunchedError: `body` launched nothing on the current stream.
    """
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    # A capture that fails does not restore the current stream itself.
    with warnings.catch_warnings(record=True) as caught, torch.cuda.stream(torch.cuda.current_stream()):
        warnings.simplefilter("always")
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                body()
        except Exception as error:
            _recover()
            # Ending a broken capture fails too; the first failure has the reason.
            first = error.__context__ or error
            raise NotCapturableError(str(first).strip().split("\n")[0] or type(first).__name__) from error
    if any("CUDA Graph is empty" in str(warning.message) for warning in caught):
        raise nothing_launched()
    return graph


def _recover() -> None:
    """Make torch usable after a failed capture.

    A failed capture leaves the random generators in capture mode, in which `torch.randn` raises; the end of
    the next good capture resets them.
    """
    torch.cuda.synchronize()
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
        torch.zeros(1, device="cuda")


def block_gpu(microseconds: float) -> None:
    """Queue a kernel that keeps the GPU busy for at least this long."""
    torch.cuda._sleep(int(microseconds * SLEEP_CYCLES_PER_US))  # type: ignore[no-untyped-call]


def replay_us(graph: torch.cuda.CUDAGraph) -> float:
    """Return the microseconds of one replay; a blocking kernel hides the host's launch of the graph."""
    start, end = event(), event()
    block_gpu(100)
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return elapsed_us(start, end)


def nothing_launched() -> NothingLaunchedError:
    """Return the error for a callable that does no work on the GPU."""
    return NothingLaunchedError(
        "the callable launched nothing on the GPU",
        expected="a callable that launches kernels, on the current CUDA stream unless the mode is 'kernels'",
        next_step="put its tensors on gpuperf.device",
    )


def waits_for_gpu(fn: Callable[[], Any]) -> bool:
    """Return True if `fn` returns only when the GPU has finished earlier work."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    fn()
    host_us = (time.perf_counter() - begin) * 1e6
    torch.cuda.synchronize()
    # Long enough that a host that is slow for once does not look like one that waits.
    block_gpu(min(max(20_000, 10 * host_us), 500_000))
    passed = event()
    passed.record()
    fn()
    waited = bool(passed.query())  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    return waited
