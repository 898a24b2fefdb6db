"""Parts of batches: CUDA graphs, events and the kernel that blocks the GPU."""

from __future__ import annotations

import gc
import re
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.compat.torch_names import end_allocations
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.device.memory import free_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLEEP_CYCLES_PER_US = 2000
"""More than any SM clock in MHz, so that a blocking kernel lasts at least as long as requested."""


_NO_USERS_SEED = 0x6770_7570_6572_6621


class NotCapturableError(Exception):
    """The callable cannot be captured into a CUDA graph; the text is the reason."""


class OutOfMemoryError(GpuperfError):
    """The GPU has too little memory for a graph of the callable."""


class NothingLaunchedError(GpuperfError):
    """The callable launched nothing on the current stream, or nothing at all."""


def capture(body: Callable[[], Any], at_end: Callable[[], None] = lambda: None) -> torch.cuda.CUDAGraph:
    """Capture the launches of `body` into one CUDA graph.

    Args:
        body: Launches work.
        at_end: Called when `body` has returned, before the capture ends; it launches nothing.

    Raises:
        NotCapturableError: `body` synchronises, allocates outside torch or launches elsewhere.
        OutOfMemoryError: There is too little memory.
        NothingLaunchedError: `body` launched nothing on the current stream.
    """
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    originals.synchronize()
    # A capture that fails does not restore the current stream itself.
    with (
        _no_garbage_collection(),
        warnings.catch_warnings(record=True) as caught,
        torch.cuda.stream(torch.cuda.current_stream()),
    ):
        warnings.simplefilter("always")
        try:
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                _on_one_stream(body)
                at_end()
        except Exception as error:
            end_allocations(pool)
            _recover()
            # Ending a broken capture fails too; the first failure has the reason.
            first = error.__context__ or error
            for one in (error, first):
                if isinstance(one, torch.cuda.OutOfMemoryError):
                    raise out_of_memory(one) from error
            raise NotCapturableError(str(first).strip().split("\n")[0] or type(first).__name__) from error
    if any("CUDA Graph is empty" in str(warning.message) for warning in caught):
        raise nothing_launched()
    return graph


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


def _on_one_stream(body: Callable[[], Any]) -> None:
    """Run `body`, and end the capture on the stream on which it began.

    Raises:
        RuntimeError: `body` leaves another stream as the current one.
    """
    stream = torch.cuda.current_stream()
    try:
        body()
    finally:
        left = torch.cuda.current_stream()
        if left != stream:
            torch.cuda.set_stream(stream)
    if left != stream:
        raise RuntimeError("it leaves another stream as the current one")


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keep Python from freeing cycles: a memory pool of torch that ends during a capture ends the process."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _recover() -> None:
    """Make torch usable after a failed capture.

    A failed capture leaves the random generators in capture mode, in which `torch.randn` raises; the end of
    the next good capture resets them.
    """
    originals.synchronize()
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
        # Nothing that allocates, since torch may have been told not to cache memory.
        block_gpu(0)


def block_gpu(microseconds: float) -> None:
    """Queue a kernel that keeps the GPU busy for at least this long."""
    originals.sleep_on_gpu(int(microseconds * SLEEP_CYCLES_PER_US))


def replay_us(graph: torch.cuda.CUDAGraph) -> float:
    """Return the microseconds of one replay; a blocking kernel hides the host's launch of the graph."""
    start, end, stream = originals.event(), originals.event(), originals.current_stream()
    block_gpu(100)
    originals.record(start, stream)
    originals.replay(graph)
    originals.record(end, stream)
    originals.synchronize()
    return originals.elapsed_us(start, end)


def out_of_memory(error: Exception) -> OutOfMemoryError:
    """Return the error for a callable whose outputs do not fit into a graph's own memory.

    Args:
        error: torch's error, which says how much was asked for.
    """
    asked = re.search(r"Tried to allocate ([\d.]+ \w+)", str(error))
    return OutOfMemoryError(
        f"the GPU is out of memory: {asked[1] if asked else 'a tensor'} more is needed for a graph of the "
        f"callable, and {free_bytes() / 2**30:.3g} GiB are free",
        expected="memory for the arguments and one output of a call",
        next_step="free the tensors of earlier tests, take a smaller shape, or use mode='kernels', which "
        "needs no graph",
    )


def nothing_launched() -> NothingLaunchedError:
    """Return the error for a callable that does no work on the GPU."""
    return NothingLaunchedError(
        "the callable launched nothing on the GPU",
        expected="a callable that launches kernels, on the current CUDA stream unless the mode is 'kernels'",
        next_step="put its tensors on gpuperf.device",
    )


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
