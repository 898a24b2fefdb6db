"""Memory of torch as bytes: of an allocation, at an address, and the free ones of a GPU."""

from __future__ import annotations

import torch


def free_bytes(device: torch.device | None = None) -> int:
    """Return how much memory torch can still get on a GPU, by default the current one."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + kept


def bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    """Return the bytes of a whole allocation, in the same memory."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def bytes_at(address: int, size: int, device: torch.device | str = "cuda") -> torch.Tensor:
    """Return the bytes at an address of a GPU."""
    return torch.as_tensor(_Bytes(address, size), device=device)


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
