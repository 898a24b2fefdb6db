"""Fill memory with a pattern, so that unwritten elements can be told from written ones."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.compat.torch_names import dispatch_mode_type
from pytest_gpuperf.measure.device.held_gpu import streams_of_torch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

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
    words = _words(tensor)
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
