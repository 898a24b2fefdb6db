"""Memory between poisoned bytes: red zones, and a pool of them for all allocations of a call on a GPU.

torch's caching allocator gives each request the smallest free block that fits. A first call tells the sizes
of its requests. Before a second call, a memory pool of its own gets one free block of exactly each size, with
a block in use on both sides, and all its memory is filled with one byte. The requests of the second call find
the blocks of their sizes. Afterwards every byte of the pool that no request got must still hold the byte: the
blocks in use, and the rest of each block, which is rounded up to 512 bytes.

No dispatch mode is needed, so torch.compile stays as it is, and C++ extensions are guarded too. A request
that the first call did not make gets memory without a red zone.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch

from pytest_gpuperf.compat import torch_names
from pytest_gpuperf.measure.device.memory import bytes_at, free_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ALIGNMENT = 512
"""Bytes by which torch aligns memory on a GPU (`kMinBlockSize` in c10/core/AllocatorConfig.h)."""
POOL_BYTE = 0x5A
"""Unlike the byte around arguments: a kernel may copy what it reads out of bounds."""
_SMALL = 1 << 20
"""Largest request from a small block (`kSmallSize` in c10/core/AllocatorConfig.h)."""
_LARGE_ZONE = 2 << 20
"""A block is split if more than `kSmallSize` is left."""
_LEAST_SEGMENT = 10 << 20
"""A request as large as this gets a segment of its own (`kMinLargeAlloc`)."""
_SMALL_ZONE = 4096
_MOST_BYTES = 1 << 30
"""Memory that a process may keep for red zones of one call."""
_MOST_ENTRIES = 100_000
_pools: dict[int, torch.cuda.MemPool] = {}
"""The pool of each GPU, by its index."""


@dataclass(frozen=True)
class Neighbour:
    """A tensor next to a red zone."""

    name: str
    itemsize: int = 0
    """Bytes of an element; 0 if unknown."""

    def distance(self, skipped: int) -> str:
        """Return `1 element` for no byte between the tensor and a changed one."""
        unit = "element" if self.itemsize else "byte"
        count = skipped // (self.itemsize or 1) + 1
        return f"{count} {unit}{'s' * (count > 1)}"


@dataclass(frozen=True)
class Zone:
    """Bytes that nobody may write."""

    memory: torch.Tensor
    """The bytes."""
    byte: int
    """Their value."""
    before: Neighbour | None = None
    """The tensor that ends at the first byte."""
    after: Neighbour | None = None
    """The tensor that begins behind the last byte."""

    def changed(self) -> torch.Tensor:
        """Return, on the device, if a byte has changed."""
        return (self.memory != self.byte).any()

    def describe(self) -> str:
        """Describe the changed bytes: their number, and the distance from the nearest tensor."""
        places = (self.memory != self.byte).nonzero().flatten()
        past, ahead = int(places[0]), self.memory.numel() - 1 - int(places[-1])
        changed = f"{len(places)} byte{'s' * (len(places) > 1)} changed, the nearest"
        if self.before is not None and (self.after is None or past <= ahead):
            return f"{changed} {self.before.distance(past)} past the end of {self.before.name}"
        if self.after is not None:
            return f"{changed} {self.after.distance(ahead)} before {self.after.name}"
        return f"{len(places)} bytes changed that belong to no tensor"


def written(zones: Sequence[Zone]) -> list[str]:
    """Describe each red zone that was written."""
    by_device: dict[torch.device, list[Zone]] = {}
    for zone in zones:
        if zone.memory.numel():
            by_device.setdefault(zone.memory.device, []).append(zone)
    found = []
    for same in by_device.values():
        # One wait for the device, however many zones there are.
        flags = torch.stack([zone.changed() for zone in same]).tolist()
        found += [zone.describe() for zone, flag in zip(same, flags, strict=True) if flag]
    return found


def memory_between(buffer: torch.Tensor, begin: int, end: int) -> torch.Tensor:
    """Return bytes of a buffer as memory of their own: its storage has exactly these bytes.

    A view of the buffer would have another storage offset, for which torch.compile compiles again. The buffer
    has to stay alive.
    """
    if buffer.is_cuda:
        return bytes_at(buffer.data_ptr() + begin, end - begin, buffer.device)
    return torch.from_numpy(buffer.numpy()[begin:end])


@dataclass
class Requests:
    """Memory that a call has asked for."""

    events: list[dict[str, Any]] = field(default_factory=list)
    captured: bool = False
    """True if the call captured a graph, whose memory has to stay."""

    @property
    def allocations(self) -> list[tuple[int, int]]:
        """Address and size of each request."""
        return [(event["addr"], event["size"]) for event in self.events if event["action"] == "alloc"]

    def at_once(self) -> Counter[int]:
        """Count how many blocks of each size are in use at the same time, at most."""
        used: dict[int, int] = {}
        now: Counter[int] = Counter()
        most: Counter[int] = Counter()
        for event in self.events:
            if event["action"] == "alloc":
                used[event["addr"]] = event["size"]
                now[event["size"]] += 1
                most[event["size"]] = max(most[event["size"]], now[event["size"]])
            elif event["action"] == "free_completed" and event["addr"] in used:
                now[used.pop(event["addr"])] -= 1
        return most


@contextmanager
def recorded_requests(device: torch.device) -> Iterator[Requests]:
    """Record the requests to torch's allocator inside the block."""
    requests = Requests()
    with _noted_captures(requests), torch_names.recorded_memory(_MOST_ENTRIES) as events:
        yield requests
        requests.events = list(events()[_index(device)])


@contextmanager
def _noted_captures(requests: Requests) -> Iterator[None]:
    graph: Any = torch.cuda.CUDAGraph
    begin = graph.capture_begin

    def capture_begin(*args: Any, **kwargs: Any) -> Any:
        requests.captured = True
        return begin(*args, **kwargs)

    with patch.object(graph, "capture_begin", capture_begin):
        yield


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


def can_guard() -> bool:
    """Return True if this torch has memory pools, and nobody else records its requests."""
    return (
        # torch crashes if it is asked for the rest before.
        torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        and hasattr(torch.cuda, "use_mem_pool")
        and torch.cuda.get_allocator_backend() == "native"
        and torch_names.can_record_memory()
    )


def _pool_of(device: torch.device) -> torch.cuda.MemPool:
    """Return the pool of a GPU, which lives as long as the process.

    torch ends the process if a pool is destroyed during a graph capture, or after one that failed.
    """
    at = _index(device)
    if at not in _pools:
        _pools[at] = torch.cuda.MemPool()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_pools[at]))
    return _pools[at]


class GuardedPool:
    """Memory for the requests of one call, with red zones between them.

    Args:
        device: The GPU.
        sizes: How many requests of each size, in bytes, are served at the same time.
    """

    def __init__(self, device: torch.device, sizes: Mapping[int, int]) -> None:
        self._device = device
        self._pool = _pool_of(device)
        self._guards: list[torch.Tensor] = []
        self._stack = ExitStack()
        self._requests = Requests()
        with torch.cuda.use_mem_pool(self._pool, device):
            slots = [self._slot(size) for size in sorted(sizes, reverse=True) for _ in range(sizes[size])]
            self._guards.append(self._bytes(_SMALL_ZONE))
        del slots
        self._segments = [(segment["address"], segment["total_size"]) for segment in self._snapshot()]
        for address, size in self._segments:
            self._at(address, size).fill_(POOL_BYTE)

    def _bytes(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8, device=self._device)

    def _slot(self, size: int) -> torch.Tensor:
        """Make a block, behind a block that stays in use."""
        if size <= _SMALL:
            self._guards.append(self._bytes(_SMALL_ZONE))
            return self._bytes(size)
        whole = self._bytes(_large_segment(size))
        left = whole.numel() - size - _LARGE_ZONE
        del whole
        self._guards.append(self._bytes(_LARGE_ZONE))
        slot = self._bytes(size)
        self._guards.append(self._bytes(left // 512 * 512))
        return slot

    def _snapshot(self) -> list[dict[str, Any]]:
        segments: Any = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
        return [one for one in segments if tuple(one["segment_pool_id"]) == tuple(self._pool.id)]

    def _at(self, address: int, size: int) -> torch.Tensor:
        return bytes_at(address, size, self._device)

    def __enter__(self) -> GuardedPool:
        """Serve the requests of this thread from the pool, and record them."""
        self._stack.enter_context(torch.cuda.use_mem_pool(self._pool, self._device))
        self._requests = self._stack.enter_context(recorded_requests(self._device))
        return self

    def __exit__(self, *error: object) -> None:
        """Serve no more requests."""
        self._stack.close()
        if self._requests.captured:
            # The graph keeps using the memory that it got.
            _pools.pop(_index(self._device), None)

    def zones(self, outputs: Mapping[int, Neighbour]) -> list[Zone]:
        """Return the memory of the pool that no request got.

        Args:
            outputs: The outputs of the call, by the address of their memory.
        """
        given = self._requests.allocations
        names = {at: outputs.get(at, Neighbour(f"{size} bytes that it allocated")) for at, size in given}
        return [
            Zone(self._at(start, stop - start), POOL_BYTE, names.get(before), names.get(after))
            for address, size in self._segments
            for start, stop, before, after in near(unused(address, address + size, given))
        ]

    @staticmethod
    def fits(device: torch.device, sizes: Mapping[int, int]) -> bool:
        """Return True if there is memory for these requests; the pool never gives it back."""
        needed = sum(
            count * (size + _SMALL_ZONE if size <= _SMALL else _large_segment(size))
            for size, count in sizes.items()
        )
        return needed <= _MOST_BYTES and needed < free_bytes(device) / 2


def _large_segment(size: int) -> int:
    """Return the size of a segment for a large request: one of few, so that later requests can use it."""
    return max(_LEAST_SEGMENT, 1 << (size + 2 * _LARGE_ZONE - 1).bit_length())


def near(parts: Iterator[tuple[int, int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the ends of parts next to a request; a segment of an earlier call may be large."""
    for start, stop, before, after in parts:
        if stop - start <= 2 * _LARGE_ZONE and (before or after):
            yield start, stop, before, after
            continue
        if before:
            yield start, start + _LARGE_ZONE, before, 0
        if after:
            yield stop - _LARGE_ZONE, stop, 0, after


def unused(
    begin: int, end: int, allocations: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the parts of a segment that no request got.

    Args:
        begin: Address of the segment.
        end: Address behind it.
        allocations: Address and size of each request; later ones may have got the memory of earlier ones.

    Yields:
        Start and end of the part, and the addresses of the requests before and after it; 0 for none.
    """
    reached, before = begin, 0
    for at, size in [*sorted(one for one in allocations if begin <= one[0] < end), (end, 0)]:
        if at > reached:
            yield reached, at, before, at if at < end else 0
        if at + size >= reached:
            reached, before = at + size, at
