"""Activity records of CUPTI: kernels, copies and fills on the GPU, with their times, and marks between calls.

torch.profiler gives the same records, but its first use takes seconds; this takes some 40 ms and detaches
CUPTI afterwards. While CUPTI is attached, each node of a CUDA graph takes 0.04 to 0.05 µs longer (H200, CUDA
13.0; `python -m benchmarks.first_graphs`).

CUPTI records concurrent kernels by code that it adds to them. Few kernels become slower: a softmax of
8192 x 8192 by 2 %, and an addition in place by 131,072 blocks with one element a thread by 6 %, from 117.9 µs
(events around a graph) to 125.1 µs. torch.profiler's records are the same. Serialised kernels keep their
code, but each record is some 2 µs longer than the kernel: 119.8 µs.

A mark is an empty kernel that separates the launches of two calls in the records.
"""

from __future__ import annotations

import ctypes
import sys
import time
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.libcupti import OWNER, CuptiError, cupti
from pytest_gpuperf.measure.device import driver, originals
from pytest_gpuperf.measure.device.originals import finish

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_gpuperf.measure.cupti.libcupti import Cupti


# CUpti_ActivityKind in cupti_activity.h.
_MEMCPY, MEMSET, _KERNEL, _CONCURRENT_KERNEL, _PEER_MEMCPY = 1, 2, 3, 10, 22
# CUpti_ActivityMemcpyKind: host to device and back, to and from arrays, and host to host.
_WITH_HOST = frozenset((1, 2, 3, 4, 9))
_BUFFER_BYTES = 8 << 20
_FLUSH_FORCED = 1

_RequestBuffer = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_BufferCompleted = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


class _MemoryRecord(ctypes.Structure):
    """First fields of the records of copies and fills, in all versions since CUDA 9."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("copy_kind", ctypes.c_uint8),  # only of a copy
        ("_kinds_and_flags", ctypes.c_uint8 * 3),
        ("bytes", ctypes.c_uint64),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("device", ctypes.c_uint32),
        ("_context", ctypes.c_uint32),
        ("stream", ctypes.c_uint32),
        ("correlation_id", ctypes.c_uint32),
    )


class _PeerCopy(ctypes.Structure):
    """First fields of the record of a copy between two devices."""

    _fields_ = (
        *_MemoryRecord._fields_[:-1],
        ("_devices_and_contexts", ctypes.c_uint32 * 4),
        ("correlation_id", ctypes.c_uint32),
    )


class _Kernel(ctypes.Structure):
    """The fields that CUpti_ActivityKernel4 and later versions share; the cluster exists since CUDA 11.8."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("_cache_config", ctypes.c_uint8),
        ("_shared_memory_config", ctypes.c_uint8),
        ("registers_per_thread", ctypes.c_uint16),
        ("_partitioned_global_cache", ctypes.c_uint32 * 2),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("_completed", ctypes.c_uint64),
        ("device", ctypes.c_uint32),
        ("_context", ctypes.c_uint32),
        ("stream", ctypes.c_uint32),
        ("grid", ctypes.c_int32 * 3),
        ("block", ctypes.c_int32 * 3),
        ("static_shared_memory", ctypes.c_int32),
        ("dynamic_shared_memory", ctypes.c_int32),
        ("local_memory", ctypes.c_uint32 * 2),
        ("correlation_id", ctypes.c_uint32),
        ("_grid_id", ctypes.c_int64),
        ("name", ctypes.c_char_p),
        ("_reserved", ctypes.c_void_p),
        ("_queued", ctypes.c_uint64 * 2),
        ("_launch_type", ctypes.c_uint8 * 4),
        ("shared_memory_per_sm", ctypes.c_uint32),
        ("graph_node_id", ctypes.c_uint64),
        ("_shared_memory_limit", ctypes.c_uint32),
        ("graph_id", ctypes.c_uint32),
        ("_access_policy", ctypes.c_void_p),
        ("_channel", ctypes.c_uint32 * 2),
        ("cluster", ctypes.c_uint32 * 3),
    )


class Activity(NamedTuple):
    """One kernel, copy or fill on the GPU."""

    start_ns: int
    end_ns: int
    name: str
    """Demangled name of the kernel; empty for a copy or a fill."""
    bytes: int = 0
    """Size of a copy or a fill."""
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    registers_per_thread: int = 0
    shared_memory_bytes: int = 0
    """Static and dynamic shared memory of one block."""
    static_shared_memory_bytes: int = 0
    """The part that the code of the kernel declares."""
    shared_memory_per_sm: int = 0
    """Bytes in the L1 of each SM that the driver made shared memory."""
    cluster: tuple[int, int, int] = (0, 0, 0)
    """Blocks of a cluster in x, y, z; zeros without clusters."""
    launch: int = 0
    """Number that grows from launch to launch; all nodes of one graph launch share it."""
    in_graph: bool = False
    """True for a kernel that a CUDA graph launches, also if it is the only one."""
    stream: int = 0
    """CUPTI's number of the stream."""
    device: int = 0
    """CUDA's number of the device; for a copy between two, one of them."""
    with_host: bool = False
    """True for a copy from or to the memory of the host."""
    symbol: str = ""
    """Name of the kernel in its cubin: mangled for C++."""
    local_bytes: int = 0
    """Local memory of a thread."""


class _Recorder:
    """Provider of buffers for CUPTI, and reader of them."""

    def __init__(self, library: Cupti, of_kernels: int) -> None:
        self.activities: list[Activity] = []
        self.of_kernels = of_kernels
        self._cupti = library
        self._next = library.functions.cuptiActivityGetNextRecord
        self._next.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p))
        self._buffers: dict[int, ctypes.Array[ctypes.c_char]] = {}
        # Kept alive here, since CUPTI stores only their addresses.
        self._request = _RequestBuffer(self._requested)
        self._complete = _BufferCompleted(self._completed)
        library.call("cuptiActivityRegisterCallbacks", self._request, self._complete)

    def _requested(self, buffer, size, records) -> None:  # type: ignore[no-untyped-def]
        memory = ctypes.create_string_buffer(_BUFFER_BYTES + 8)
        aligned = (ctypes.addressof(memory) + 7) & ~7
        self._buffers[aligned] = memory
        buffer[0], size[0], records[0] = aligned, _BUFFER_BYTES, 0

    def _completed(self, _context, _stream, buffer, _size, valid) -> None:  # type: ignore[no-untyped-def]
        record = ctypes.c_void_p()
        while self._next(buffer, valid, ctypes.byref(record)) == 0:
            if record.value is not None:
                self._read(record.value)
        self._buffers.pop(buffer, None)

    def _read(self, address: int) -> None:
        kind = ctypes.c_uint32.from_address(address).value
        if kind in (_MEMCPY, MEMSET, _PEER_MEMCPY):
            memory = (_PeerCopy if kind == _PEER_MEMCPY else _MemoryRecord).from_address(address)
            self.activities.append(
                Activity(
                    memory.start,
                    memory.end,
                    "",
                    memory.bytes,
                    launch=memory.correlation_id,
                    stream=memory.stream,
                    device=memory.device,
                    with_host=kind == _MEMCPY and memory.copy_kind in _WITH_HOST,
                )
            )
        elif kind in (_KERNEL, _CONCURRENT_KERNEL):
            kernel = _Kernel.from_address(address)
            self.activities.append(
                Activity(
                    kernel.start,
                    kernel.end,
                    _demangled(kernel.name or b""),
                    grid=tuple(kernel.grid),
                    block=tuple(kernel.block),
                    registers_per_thread=kernel.registers_per_thread,
                    shared_memory_bytes=kernel.static_shared_memory + kernel.dynamic_shared_memory,
                    static_shared_memory_bytes=kernel.static_shared_memory,
                    shared_memory_per_sm=kernel.shared_memory_per_sm,
                    cluster=tuple(kernel.cluster),
                    launch=kernel.correlation_id,
                    in_graph=bool(kernel.graph_node_id or kernel.graph_id),
                    stream=kernel.stream,
                    device=kernel.device,
                    symbol=(kernel.name or b"").decode(errors="replace"),
                    local_bytes=kernel.local_memory[0],
                )
            )


@contextmanager
def recorded(*, stay: bool = False, serial: bool = False) -> Iterator[list[Activity]]:
    """Record the activities on the GPU inside the `with`; its end fills the list, in order of start.

    Args:
        stay: Leave CUPTI attached, before and after, for further use.
        serial: Run one kernel at a time, without code that CUPTI adds.

    Raises:
        CuptiError: CUPTI is missing, or another profiler uses it or may use it.
    """
    library = cupti()
    of_kernels = _KERNEL if serial else _CONCURRENT_KERNEL
    if any(recorder.of_kernels != of_kernels for recorder in OWNER.callbacks):
        OWNER.detach()
    kinds = (of_kernels, _MEMCPY, MEMSET, _PEER_MEMCPY)
    activities: list[Activity] = []
    with OWNER.attached(library, stay=stay):
        recorder = _Recorder(library, of_kernels)
        OWNER.callbacks.append(recorder)
        try:
            for kind in kinds:
                library.call("cuptiActivityEnable", kind)
            yield activities
            finish()
            library.call("cuptiActivityFlushAll", _FLUSH_FORCED)
            activities.extend(sorted(recorder.activities))
            recorder.activities.clear()
        finally:
            if not OWNER.is_lost():
                for kind in kinds:
                    library.functions.cuptiActivityDisable(kind)


@cache
def _demangled(name: bytes) -> str:
    text = name.decode(errors="replace")
    if not text.startswith("_Z"):
        return text
    from pytest_gpuperf.compat.torch_names import demangled

    return demangled(text)


def busy_us(calls: Iterable[Iterable[Activity]]) -> list[float]:
    """Compute the microseconds in which at least one activity of a call ran; overlaps count once."""
    covered = 0
    found = []
    for activities in calls:
        total = 0
        for activity in activities:
            total += max(0, activity.end_ns - max(activity.start_ns, covered))
            covered = max(covered, activity.end_ns)
        found.append(total / 1e3)
    return found


REFUSED = "the time is refused: "
SPIN = "spin_kernel"
"""torch's kernel that blocks the GPU."""
THREADS_S = 0.004
"""Seconds in which other threads of Python may launch work after the last call."""


def mark() -> None:
    """Queue an empty kernel on the current stream.

    Raises:
        GpuperfError: The driver refuses it.
    """
    driver.launch(driver.EMPTY, 0, originals.current_stream().cuda_stream)


def counted(calls: Sequence[Sequence[Activity]]) -> list[list[Activity]]:
    """Return the activities of calls that count in a time: all, or without copies from and to the host.

    These count only if the calls do nothing else on the GPU. The same small copies of a call took 4.4 µs in
    one session and 6.9 µs in another, on other hosts (H200).
    """
    device = [[one for one in call if not one.with_host] for call in calls]
    return device if any(device) else [list(call) for call in calls]


def copied_bytes(calls: Sequence[Sequence[Activity]]) -> float | None:
    """Return the mean bytes that calls copy and fill; None if they launch kernels, too.

    None also if only some of the copies are from or to the host, which not each time contains.
    """
    work = [one for call in calls for one in call]
    if any(one.name for one in work) or len({one.with_host for one in work}) != 1:
        return None
    return sum(one.bytes for one in work) / len(calls)


def marks_in(activities: Iterable[Activity], launched: int) -> list[Activity]:
    """Return the marks among activities.

    Args:
        activities: The activities.
        launched: Number of marks.

    Raises:
        CuptiError: Marks are missing.
        GpuperfError: There are more: the callable could pass its work off as marks.
    """
    found = [one for one in activities if driver.EMPTY in one.name]
    if (more := len(found) - launched) > 0:
        raise GpuperfError(
            f"{REFUSED}{more} kernels of the callable have the name {driver.EMPTY}, by which this "
            "plugin knows its own kernels",
            expected="kernels of other names",
        )
    if more:
        raise CuptiError(
            f"CUPTI recorded {len(found)} of {launched} marks",
            next_step="leave other profilers out of the process",
        )
    return found


def refuse_elsewhere(*, silent: int, late: int, calls: int) -> None:
    """Refuse calls that launch their work at another time.

    Args:
        silent: Number of calls that launched nothing.
        late: Number of launches after calls had returned.
        calls: Number of calls.

    Raises:
        GpuperfError: Some did.
    """
    if late:
        raise GpuperfError(
            f"{REFUSED}{late} launches came after {calls} calls had returned",
            expected="calls that launch all of their work before they return, also from other threads",
        )
    if silent:
        raise GpuperfError(
            f"{REFUSED}{silent} of {calls} calls launched nothing on the GPU",
            expected="calls that all do the same work",
        )


def wait_for_threads() -> None:
    """Give other threads of Python the time to launch, if there are any."""
    if len(sys._current_frames()) > 1:
        time.sleep(THREADS_S)
