"""Memory of torch as bytes: of an allocation, at an address, and the free ones of a GPU."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


def free_bytes(device: torch.device | None = None) -> int:
    """Return how much memory torch can still get on a GPU, by default the current one."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + kept


@contextmanager
def peak_requested() -> Iterator[list[int]]:
    """Measure the most bytes that are requested of torch's allocator at once in the block, on this GPU.

    Those requested before do not count. Allocated bytes would depend on the blocks that it has
    kept.

    Yields:
        A list that has the bytes after the block; empty if another allocator serves torch.
    """
    found: list[int] = []
    # torch crashes if it is asked for the allocator before.
    is_known = torch.cuda.is_initialized() and torch.cuda.get_allocator_backend() == "native"  # type: ignore[no-untyped-call]
    if is_known:
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats().get("requested_bytes.all.current", 0) if is_known else 0
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
    return alias(tensor, storage).requires_grad_(tensor.requires_grad)


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
