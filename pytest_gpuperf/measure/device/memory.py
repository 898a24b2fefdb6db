"""Memory of a GPU: as bytes, filled with patterns, and without traces in the L2.

Patterns tell unwritten elements from written ones.

A part of the L2 can be set aside for persisting accesses (`cudaLimitPersistingL2CacheSize`). Lines in it
outlive a flush by normal writes, the kernel that marked them, and the test. Source: CUDA C++ Programming
Guide, section "L2 Set-Aside Cache for Persisting Accesses".
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.compat.torch_names import dispatch_mode_type, with_bits
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.device.driver import (
    CU_LIMIT_PERSISTING_L2_CACHE_SIZE,
    CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW,
    DriverError,
    call,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


def free_bytes(device: torch.device | None = None) -> int:
    """Return how much memory torch can still get on a GPU, by default the current one."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + kept


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keep Python from freeing cycles."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def peak_requested() -> Iterator[list[int]]:
    """Measure the most bytes that are requested of torch's allocator at once in the block, on this GPU.

    Those requested before do not count. Allocated bytes would depend on the blocks that it has
    kept.

    Yields:
        A list that has the bytes after the block; empty if another allocator serves torch, or if torch's own
        keeps no memory and counts nothing.
    """
    found: list[int] = []
    # torch crashes if it is asked for the allocator before.
    is_native = torch.cuda.is_initialized() and torch.cuda.get_allocator_backend() == "native"  # type: ignore[no-untyped-call]
    is_known = is_native and "PYTORCH_NO_CUDA_MEMORY_CACHING" not in os.environ
    if is_known:
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats().get("requested_bytes.all.current", 0) if is_known else 0
    # Tensors of an earlier test that are freed meanwhile would hide as many bytes of the block.
    with no_garbage_collection():
        yield found
    if is_known:
        found.append(torch.cuda.memory_stats()["requested_bytes.all.peak"] - before)


def bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    """Return the bytes of a whole allocation, in the same memory."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def bytes_at(address: int, size: int, device: torch.device | str = "cuda") -> torch.Tensor:
    """Return the bytes at an address of a GPU."""
    return torch.as_tensor(_Bytes(address, size), device=device)


def alias(tensor: torch.Tensor, storage: torch.UntypedStorage | None = None) -> torch.Tensor:
    """Return another tensor in the same memory, or at the same place in another storage.

    A change through it does not show in the version of the tensor.
    """
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
        tensor.untyped_storage() if storage is None else storage,
        tensor.storage_offset(),
        tensor.shape,
        tensor.stride(),
    )


def twin(tensor: torch.Tensor, storage: torch.UntypedStorage) -> torch.Tensor:
    """Return the like of a tensor at the same place in another storage: a parameter for a parameter."""
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(alias(tensor, storage), tensor.requires_grad)
    found = with_bits(alias(tensor, storage), (tensor.is_conj(), tensor.is_neg()))
    return found.requires_grad_(tensor.requires_grad)


class _Bytes:
    """Memory that `torch.as_tensor` takes as it is."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def fingerprint(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return sums over the memory of a tensor, which other values change."""
    memory = bytes_of(tensor.untyped_storage())
    words = memory[: memory.numel() // 4 * 4].view(torch.int32)
    # The second sum notices a new order.
    sums = words.sum(), words[::3].sum(), memory[words.numel() * 4 :].sum()
    return tuple(map(int, torch.stack(sums)))


PATTERNS = (0xFF, 0x5A)
"""Bytes that fill memory. 0xFF is NaN in every floating type and -1 in signed integers; 0x5A is a
large number, for kernels that lose NaN (`fmax`, atomics). No type has one value with both."""

PACKED: frozenset[torch.dtype] = frozenset(
    one for name, one in vars(torch).items() if re.fullmatch(r"bits\d.*|u?int[1-7]|float4.*", name)
)
"""Types that torch can only move: no comparison, no conversion, no arithmetic."""

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

ALLOCATIONS = (
    torch.ops.aten.empty,
    torch.ops.aten.empty_like,
    torch.ops.aten.empty_permuted,
    torch.ops.aten.empty_strided,
    torch.ops.aten.new_empty,
    torch.ops.aten.new_empty_strided,
)

_STREAMS = 32
"""Streams of each priority that torch gives away in turn (`kStreamsPerPool` in c10/cuda/CUDAStream.cpp)."""
_SMALL_BLOCK_BYTES = 1 << 20
"""Largest allocation from the small pool (`kSmallSize` in PyTorch's c10/core/AllocatorConfig.h)."""


def same_bits(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Mark the elements with the same bits in two tensors of one type and shape, NaN included."""
    return _all_words(tensor, _words(tensor) == _words(other))


def holds(tensor: torch.Tensor, byte: int) -> torch.Tensor:
    """Mark the elements whose bytes all are `byte`."""
    words = _words(tensor)
    return _all_words(tensor, words == _word_of(byte, words))


def fill(tensor: torch.Tensor, byte: int) -> None:
    """Set all bytes of a tensor's elements, and nothing else, to `byte`."""
    words = _words(alias(tensor))  # the words of a conjugated or negated view cannot be seen
    words.fill_(_word_of(byte, words))


def zero(tensor: torch.Tensor, marks: torch.Tensor) -> None:
    """Set the bits of the marked elements to zero."""
    _words(tensor)[marks] = 0


def copy(tensor: torch.Tensor) -> torch.Tensor:
    """Copy with the same bits: a plain copy of a boolean would turn a pattern into 1.

    The copy of a packed tensor holds its bits as integers.
    """
    if tensor.dtype in PACKED:
        return _words(tensor).clone()
    if tensor.dtype == torch.bool:
        return tensor.view(torch.uint8).clone().view(torch.bool)
    return tensor.detach().clone()


@contextmanager
def poisoned_memory(byte: int | None, devices: Collection[torch.device]) -> Iterator[None]:
    """Fill memory that is allocated inside the block with `byte`; None leaves it unchanged.

    On CUDA this fills the free blocks that the caching allocator keeps for the current stream and for streams
    from `torch.cuda.Stream()`, for any allocating code: the function, an extension, or code from
    torch.compile. New memory from the driver is not
    filled; a call that ran before needs none. Allocators other than torch's own
    (`PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync`) do not show their free blocks; with them nothing is
    filled.

    Without CUDA, `torch.empty` and similar functions fill the memory. That needs a dispatch mode, which
    disables torch.compile, so CUDA does not use it.
    """
    cuda = [device for device in devices if device.type == "cuda"]
    if byte is None:
        yield
    elif cuda:
        if torch.cuda.get_allocator_backend() == "native":
            for device in cuda:
                _fill_free_blocks(device, byte)
        yield
    else:
        with _FilledAllocations(byte):
            yield


class _FilledAllocations(dispatch_mode_type()):  # type: ignore[misc]
    def __init__(self, byte: int) -> None:
        super().__init__()
        self._byte = byte

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in ALLOCATIONS:
            result.untyped_storage().fill_(self._byte)
        return result


def _fill_free_blocks(device: torch.device, byte: int) -> None:
    """Take every free block of the caching allocator by asking for its size, fill it and give it back."""
    current = torch.cuda.current_stream(device)
    found: dict[int, list[tuple[str, int]]] = {}
    for segment in torch.cuda.memory_snapshot():  # type: ignore[no-untyped-call]
        if segment["device"] == device.index and tuple(segment["segment_pool_id"]) == (0, 0):
            free = (block["size"] for block in segment["blocks"] if block["state"] == "inactive")
            found.setdefault(segment["stream"], []).extend((segment["segment_type"], size) for size in free)
    _take(found.pop(current.cuda_stream, []), byte, device)
    for stream in streams_of_torch(device) if any(found.values()) else ():
        if blocks := found.pop(stream.cuda_stream, []):
            with torch.cuda.stream(stream):
                _take(blocks, byte, device)
            current.wait_stream(stream)


def _take(blocks: Sequence[tuple[str, int]], byte: int, device: torch.device) -> None:
    # A request above the small size goes to the large pool, so a larger block of the small pool takes two.
    # Those come last: until then every request finds its own block.
    split = [size for kind, size in blocks if kind == "small" and size > _SMALL_BLOCK_BYTES]
    sizes = [size for kind, size in blocks if kind != "small" or size <= _SMALL_BLOCK_BYTES]
    sizes += [_SMALL_BLOCK_BYTES] * len(split) + [size - _SMALL_BLOCK_BYTES for size in split]
    taken = [torch.full((size,), byte, dtype=torch.uint8, device=device) for size in sizes]
    del taken


def _words(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype == torch.complex128:
        tensor = torch.view_as_real(tensor)
    return tensor.detach().view(_WORDS[tensor.element_size()])


def _word_of(byte: int, words: torch.Tensor) -> int:
    return int.from_bytes(bytes([byte]) * words.element_size(), "little", signed=words.dtype != torch.uint8)


def _all_words(tensor: torch.Tensor, equal: torch.Tensor) -> torch.Tensor:
    return equal.all(-1) if tensor.dtype == torch.complex128 else equal


def streams_of_torch(device: torch.device) -> list[torch.cuda.Stream]:
    """Return all streams that `torch.cuda.Stream()` gives away, in turn: the next one stays the next."""
    return [torch.cuda.Stream(device, priority=at) for at in (0, -1) for _ in range(_STREAMS)]  # type: ignore[no-untyped-call]


FLUSHED_SIZES = 4
"""Sizes of the L2 that a flush reads: the L2 does not replace its oldest lines first."""
_ATTRIBUTE_BYTES = 64  # sizeof(CUstreamAttrValue)


def persisting_bytes() -> int:
    """Return the bytes of the L2 that are set aside for persisting accesses; 0 if unknown."""
    size = ctypes.c_size_t()
    return size.value if _done("cuCtxGetLimit", ctypes.byref(size), CU_LIMIT_PERSISTING_L2_CACHE_SIZE) else 0


def reset_l2() -> None:
    """Make all persisting lines of the L2 normal ones, and set nothing aside.

    If nothing is set aside, nothing persists, and a reset would take 0.3 ms. Else it waits for the work so
    far: that may still write lines that persist.
    """
    if persisting_bytes():
        originals.synchronize()
        _set_aside(0)
        _done("cuCtxResetPersistingL2Cache")


@contextmanager
def set_aside_restored() -> Iterator[None]:
    """Restore the part of the L2 that was set aside."""
    before = persisting_bytes()
    try:
        yield
    finally:
        if persisting_bytes() != before:
            _set_aside(before)


@contextmanager
def l2_reset_after() -> Iterator[None]:
    """Restore the part of the L2 that was set aside, and end the persisting lines that the block left.

    The access policy of the present stream is restored, too.
    """
    initialised = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    stream = originals.current_stream().cuda_stream if initialised else 0
    kind, policy = CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, ctypes.create_string_buffer(_ATTRIBUTE_BYTES)
    with set_aside_restored():
        _done("cuStreamGetAttribute", ctypes.c_void_p(stream), kind, policy)
        try:
            yield
        finally:
            if _done("cuCtxResetPersistingL2Cache"):
                _done("cuStreamSetAttribute", ctypes.c_void_p(stream), kind, policy)


def _set_aside(size: int) -> None:
    _done("cuCtxSetLimit", CU_LIMIT_PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(size))


def _done(function: str, *arguments: object) -> bool:
    """Call a function of the driver; False if it refuses, as for a GPU without persisting accesses."""
    with suppress(DriverError):
        call(function, *arguments)
        return True
    return False


class CleanFlush:
    """Fills the L2 of the current device with clean lines, by reads.

    ncu's flush leaves no data to be written, either: after a flush by writes, the next kernel would write
    them to DRAM, and the counters would have them.

    Args:
        l2_bytes: Size of the L2.
        device: Replaced in tests.
    """

    def __init__(self, l2_bytes: int, device: str = "cuda") -> None:
        self._memory = torch.zeros(FLUSHED_SIZES * l2_bytes, dtype=torch.int8, device=device)

    def __call__(self) -> None:
        """Queue the flush."""
        reset_l2()
        originals.total(self._memory)
