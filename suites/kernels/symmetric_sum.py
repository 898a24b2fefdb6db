"""Sum over all ranks by one Triton kernel, which reads the memory of the other GPUs itself."""

from __future__ import annotations

import os
from typing import Any

import torch
import triton
import triton.language as tl
from torch import distributed
from torch.distributed import _symmetric_memory as symmetric_memory  # its home: there is no public alias

from suites.kernels.collectives import data

# The kernel needs no multicast, which torch would set up before.
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")

BLOCK = 4096


@triton.jit  # type: ignore[untyped-decorator]
def sum_kernel(buffers, out_ptr, elements, WORLD: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Add up one block of the buffers of all ranks."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < elements
    addresses = buffers.to(tl.pointer_type(tl.uint64))
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for rank in tl.static_range(WORLD):
        buffer = tl.load(addresses + rank).to(tl.pointer_type(tl.float32))
        total += tl.load(buffer + offsets, mask=inside)
    tl.store(out_ptr + offsets, total, mask=inside)


def symmetric_sum(x: torch.Tensor, handle: Any) -> torch.Tensor:
    """Return the sum over all ranks of a tensor in symmetric memory; barriers on the GPUs enclose it."""
    out = torch.empty_like(x)
    handle.barrier()
    sum_kernel[(triton.cdiv(x.numel(), BLOCK),)](
        handle.buffer_ptrs_dev, out, x.numel(), handle.world_size, BLOCK, num_warps=8
    )
    handle.barrier()
    return out


def symmetric_buffer(size: int, rank: int, world: int, seed: int) -> tuple[torch.Tensor, Any]:
    """Return a tensor of `size` bytes that all ranks can read, and the handle that has its addresses."""
    numbers = data(rank, world, seed, size // 4)
    x = symmetric_memory.empty(numbers.shape, dtype=numbers.dtype, device=numbers.device)
    handle = symmetric_memory.rendezvous(x, distributed.group.WORLD)
    return x.copy_(numbers), handle
