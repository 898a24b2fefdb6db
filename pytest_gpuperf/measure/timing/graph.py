"""CUDA graphs of calls: capture and replay, the nodes of each call, and the launch of one call alone.

The graph that is timed holds many calls, and its time is divided by their number. So each call must do its
part of the work. While the graph is captured, the driver is asked for the number of nodes after each call;
later a copy of the graph without the nodes of all other calls runs one call by itself, on other values.
"""

from __future__ import annotations

import ctypes
import re
import warnings
import weakref
from collections import defaultdict
from contextlib import contextmanager
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from pytest_gpuperf.compat.torch_names import end_allocations, with_bits
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness.call_tensors import PLAIN, mapped, values_in
from pytest_gpuperf.measure.device import driver, originals
from pytest_gpuperf.measure.device.driver import (
    CU_GRAPH_NODE_TYPE_CONDITIONAL,
    CU_GRAPH_NODE_TYPE_GRAPH,
    CU_GRAPH_NODE_TYPE_KERNEL,
    CU_GRAPH_NODE_TYPE_MEMCPY,
    CU_GRAPH_NODE_TYPE_MEMSET,
    DriverError,
)
from pytest_gpuperf.measure.device.memory import bytes_at, free_bytes, no_garbage_collection
from pytest_gpuperf.records.settlement import is_out_of_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


SLEEP_CYCLES_PER_US = 2000
"""More than any SM clock in MHz, so that a blocking kernel lasts at least as long as requested."""

_FIRST_GRAPHS = 8
"""Twice as many as needed (H200, driver 580)."""


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
        no_garbage_collection(),  # a memory pool of torch that ends during a capture ends the process
        warnings.catch_warnings(record=True) as caught,
        torch.cuda.stream(torch.cuda.current_stream()),
    ):
        warnings.simplefilter("always")
        try:
            with _capture(graph, pool):
                _on_one_stream(body)
                at_end()
        except Exception as error:
            end_allocations(pool)
            _recover()
            # Ending a broken capture fails too; the first failure has the reason.
            first = error.__context__ or error
            if lack := next((one for one in (error, first) if is_out_of_memory(str(one))), None):
                raise out_of_memory(lack) from error
            raise NotCapturableError(str(first).strip().split("\n")[0] or type(first).__name__) from error
    if any("CUDA Graph is empty" in str(warning.message) for warning in caught):
        raise nothing_launched()
    return graph


def holds_tensors(graph: torch.cuda.CUDAGraph) -> bool:
    """Return True if tensors live in the memory of a graph."""
    pool = graph.pool()
    return any(
        block["state"] == "active_allocated"
        for segment in torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
        if tuple(segment["segment_pool_id"]) == pool
        for block in segment["blocks"]
    )


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


def _capture(graph: torch.cuda.CUDAGraph, pool: Any = None) -> Any:
    # torch's own stream of captures is of the device that captured first in this process.
    stream = _stream(torch.cuda.current_device())
    return torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local")


@cache
def _stream(device: int) -> torch.cuda.Stream:
    """Return the stream of captures of a device, once the first graphs of the process are past.

    From the fourth capture of a process on, the nodes of all its graphs take 0.2 to 0.3 µs longer each (H200,
    driver 580; `python -m benchmarks.first_graphs`): `torch.sort` 157.5 and then 165.1 µs.
    """
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    for _ in range(_FIRST_GRAPHS):
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream, capture_error_mode="thread_local"):
            # Nothing that allocates, since torch may have been told not to cache memory.
            hold_gpu(0)
    return stream


def _recover() -> None:
    """Make torch usable after a failed capture.

    A failed capture leaves the random generators in capture mode, in which `torch.randn` raises; the end of
    the next good capture resets them.
    """
    originals.synchronize()
    with _capture(torch.cuda.CUDAGraph()):
        # Nothing that allocates, since torch may have been told not to cache memory.
        hold_gpu(0)


def hold_gpu(microseconds: float) -> None:
    """Queue a kernel that keeps the GPU busy for at least this long."""
    originals.sleep_on_gpu(int(microseconds * SLEEP_CYCLES_PER_US))


def replay_us(graph: torch.cuda.CUDAGraph) -> float:
    """Return the microseconds of one replay; a blocking kernel hides the host's launch of the graph."""
    start, end, stream = originals.event(), originals.event(), originals.current_stream()
    hold_gpu(100)
    originals.record(start, stream)
    originals.replay(graph)
    originals.record(end, stream)
    originals.synchronize()
    return originals.elapsed_us(start, end)


def out_of_memory(error: BaseException) -> OutOfMemoryError:
    """Return the error for a callable whose outputs do not fit into a graph's own memory.

    Args:
        error: Its text may say how much was asked for.
    """
    asked = re.search(r"Tried to allocate ([\d.]+ \w+)", str(error))
    return OutOfMemoryError(
        f"the GPU is out of memory: {asked[1] if asked else 'some'} more is needed for a graph of the "
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


_LAUNCHES = frozenset((CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET))
_WITH_OTHERS = frozenset((CU_GRAPH_NODE_TYPE_GRAPH, CU_GRAPH_NODE_TYPE_CONDITIONAL))
"""Nodes that contain nodes."""


class CapturedOutput(NamedTuple):
    """Memory of an output, and the tensor in it."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    bits: tuple[bool, bool]
    """Whether it is a view that conjugates, and one that negates."""

    @property
    def bytes(self) -> int:
        """Bytes from its first to its last element."""
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * self.dtype.itemsize if 0 not in self.shape else 0


class _KernelParams(ctypes.Structure):
    """`CUDA_KERNEL_NODE_PARAMS_v2`."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_memory", ctypes.c_uint),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


def _destroyed_with(owner: object, function: str, handle: ctypes.c_void_p) -> None:
    """Destroy an object of the driver with its owner; at the end of the process the driver does that."""
    weakref.finalize(owner, getattr(driver.library(), function), handle).atexit = False


class CapturedCalls:
    """Wraps a callable while a graph of its calls is captured.

    Args:
        fn: The callable.
    """

    def __init__(self, fn: Callable[[], Any]) -> None:
        self._fn = fn
        self._ranges: list[tuple[int, int]] = []
        self._outputs: list[tuple[CapturedOutput, ...]] = []
        self._nodes: list[int] = []
        self._copy = ctypes.c_void_p()
        self._stream: int | None = None
        self.value: Any = None
        """Value of the last call."""
        self.unavailable = ""
        """Reason why single calls cannot be launched; empty if they can."""

    def __call__(self) -> None:
        """Call it once, and note its nodes and the memory of its outputs."""
        # The former value must be gone: its memory is the next call's, as without this object.
        self.value = None
        if self._stream is None:
            # The callable may leave another one as the current stream.
            self._stream = originals.current_stream().cuda_stream
        begin = self._count()
        self.value = self._fn()
        self._ranges.append((begin, self._count()))
        self._outputs.append(output_memory(self.value))

    def close(self) -> None:
        """Copy the graph, just before the capture ends."""
        with self._noted():
            graph = _captured_graph(self._stream)
            recorded = _nodes(graph)
            driver.call("cuGraphClone", ctypes.byref(self._copy), graph)
            # The graph itself is gone when the capture has ended. The driver lists nodes in the order of
            # their creation, which it does not promise.
            self._nodes = _nodes(self._copy)
            _destroyed_with(self, "cuGraphDestroy", self._copy)
            for at in {0, len(recorded) // 2, len(recorded) - 1} if recorded else ():
                if _in_copy(recorded[at], self._copy) != self._nodes[at]:
                    raise DriverError("the driver lists the nodes of a copied graph in another order")

    def __len__(self) -> int:
        return len(self._ranges)

    @property
    def single_nodes(self) -> bool:
        """True if each call is one node of the graph."""
        return all(end - begin == 1 for begin, end in self._ranges)

    @property
    def launches(self) -> float:
        """Most kernels, fills and copies of a call; infinite if the driver does not tell."""
        try:
            begin, end = max(self._ranges, key=lambda of_call: of_call[1] - of_call[0])
            kinds = [_kind(node) for node in self._nodes[begin:end]]
        except DriverError:
            return inf
        unknown = self.unavailable or not _WITH_OTHERS.isdisjoint(kinds)
        return inf if unknown else sum(kind in _LAUNCHES for kind in kinds)

    @property
    def output_bytes(self) -> int:
        """Bytes of the outputs of a call."""
        return sum(one.bytes for one in self._outputs[-1])

    def value_of(self, call: int) -> object:
        """Return the value of a call: that of the last, or tensors in the same memory as the call's own.

        Raises:
            DriverError: That memory is not torch's, or it is gone.
        """
        own, last = self._outputs[call], self._outputs[-1]
        if own == last:
            return self.value
        if len(own) != len(last):
            raise DriverError(f"the calls in the graph return {len(own)} or {len(last)} tensors")
        to = iter(own)
        return mapped(lambda value: _tensor(next(to)) if _memory_of(value) else value, self.value)

    def kinds(self) -> dict[object, list[int]]:
        """Group the calls by the kernels that they launch and by the number of their outputs.

        Raises:
            DriverError: The driver does not tell.
        """
        groups: defaultdict[object, list[int]] = defaultdict(list)
        for call, (begin, end) in enumerate(self._ranges):
            launched = tuple(map(_signature, self._nodes[begin:end]))
            groups[launched, len(self._outputs[call])].append(call)
        return dict(groups)

    def only(self, call: int) -> OneCall:
        """Return one call as a graph of its own.

        Raises:
            DriverError: The driver refuses.
        """
        begin, end = self._ranges[call]
        return OneCall(self._copy, self._nodes[begin:end])

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Note a refusal of the driver: it must not break the capture."""
        try:
            yield
        except DriverError as error:
            self.unavailable = self.unavailable or error.found

    def _count(self) -> int:
        found = ctypes.c_size_t()
        with self._noted():
            driver.call("cuGraphGetNodes", _captured_graph(self._stream), None, ctypes.byref(found))
        return found.value


class OneCall:
    """A graph with the nodes of one call.

    Args:
        graph: The graph of all calls; it is copied.
        kept: Its nodes that belong to the call.
    """

    def __init__(self, graph: ctypes.c_void_p, kept: Sequence[int]) -> None:
        self.nodes = len(kept)
        self._executable = ctypes.c_void_p()
        copy = ctypes.c_void_p()
        driver.call("cuGraphClone", ctypes.byref(copy), graph)
        try:
            stay = {_in_copy(node, copy) for node in kept}
            for node in _nodes(copy):
                if node not in stay:
                    driver.call("cuGraphDestroyNode", ctypes.c_void_p(node))
            driver.call(
                "cuGraphInstantiateWithFlags", ctypes.byref(self._executable), copy, ctypes.c_ulonglong(0)
            )
            _destroyed_with(self, "cuGraphExecDestroy", self._executable)
        finally:
            driver.call("cuGraphDestroy", copy)

    def launch(self) -> None:
        """Launch the call on the current stream."""
        stream = ctypes.c_void_p(originals.current_stream().cuda_stream)
        driver.call("cuGraphLaunch", self._executable, stream)


def output_memory(value: object) -> tuple[CapturedOutput, ...]:
    """Return the memory of the CUDA tensors in nested containers and dataclasses, without reading them."""
    return tuple(filter(None, map(_memory_of, values_in(value))))


def _memory_of(value: Any) -> CapturedOutput | None:
    # Asking an instance of a subclass could make it launch work.
    if type(value) not in PLAIN or value.layout != torch.strided or value.is_nested or not _is_on_gpu(value):
        return None
    bits = value.is_conj(), value.is_neg()
    return CapturedOutput(value.data_ptr(), tuple(value.shape), value.stride(), value.dtype, bits)


def _is_on_gpu(tensor: torch.Tensor) -> bool:
    return tensor.is_cuda


def _tensor(output: CapturedOutput) -> torch.Tensor:
    size = output.bytes
    segments: list[dict[str, int]] = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
    if not any(
        one["address"] <= output.address and output.address + size <= one["address"] + one["total_size"]
        for one in segments
    ):
        raise DriverError("an output of the calls in the graph lies in memory that torch does not hold")
    memory = bytes_at(output.address, size)
    return with_bits(memory.view(output.dtype).as_strided(output.shape, output.strides), output.bits)


def _captured_graph(stream: int | None) -> ctypes.c_void_p:
    """Return the graph into which a stream is captured."""
    status, number, graph = ctypes.c_int(), ctypes.c_ulonglong(), ctypes.c_void_p()
    driver.call(
        "cuStreamGetCaptureInfo_v2",
        ctypes.c_void_p(stream),
        ctypes.byref(status),
        ctypes.byref(number),
        ctypes.byref(graph),
        None,
        None,
    )
    if not graph:
        raise DriverError("the stream of the calls is not captured")
    return graph


def _nodes(graph: ctypes.c_void_p) -> list[int]:
    count = ctypes.c_size_t()
    driver.call("cuGraphGetNodes", graph, None, ctypes.byref(count))
    found = (ctypes.c_void_p * count.value)()
    driver.call("cuGraphGetNodes", graph, found, ctypes.byref(count))
    return [int(node or 0) for node in found]


def _in_copy(node: int, graph: ctypes.c_void_p) -> int:
    found = ctypes.c_void_p()
    driver.call("cuGraphNodeFindInClone", ctypes.byref(found), ctypes.c_void_p(node), graph)
    return int(found.value or 0)


def _kind(node: int) -> int:
    kind = ctypes.c_int()
    driver.call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
    return kind.value


def _signature(node: int) -> object:
    if (kind := _kind(node)) != CU_GRAPH_NODE_TYPE_KERNEL:
        return kind
    found = _KernelParams()
    driver.call("cuGraphKernelNodeGetParams_v2", ctypes.c_void_p(node), ctypes.byref(found))
    return found.function, found.kernel, *found.grid, *found.block, found.shared_memory
