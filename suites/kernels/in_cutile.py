"""Addition in cuTile."""

from __future__ import annotations

import cuda.tile as ct
import torch

TILE = 2048


@ct.kernel
def add_kernel(a, b, output, TILE: ct.Constant[int]):
    """Add one tile of two vectors in each block."""
    block = ct.bid(0)
    sums = ct.load(a, index=(block,), shape=(TILE,)) + ct.load(b, index=(block,), shape=(TILE,))
    ct.store(output, index=(block,), tile=sums)


def add_cutile(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Add two vectors, on torch's current stream."""
    output = torch.empty_like(a)
    grid = (ct.cdiv(a.numel(), TILE), 1, 1)
    ct.launch(torch.cuda.current_stream(), grid, add_kernel, (a, b, output, TILE))
    return output
