"""Kernels in Helion, each with one configuration, so that no autotuner picks another in each process."""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[1], num_warps=8), static_shapes=True)
def softmax_helion(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of each row."""
    rows, _ = x.size()
    output = torch.empty_like(x)
    for tile in hl.tile(rows):
        values = x[tile, :].to(torch.float32)
        powers = torch.exp(values - torch.amax(values, dim=1, keepdim=True))
        output[tile, :] = (powers / torch.sum(powers, dim=1, keepdim=True)).to(x.dtype)
    return output


@helion.kernel(
    config=helion.Config(block_sizes=[128, 128, 64], l2_groupings=[8], num_warps=8, num_stages=4),
    static_shapes=True,
)
def matmul_helion(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the product of two matrices."""
    m, k = a.size()
    _, n = b.size()
    output = torch.empty([m, n], dtype=a.dtype, device=a.device)
    for tile_m, tile_n in hl.tile([m, n]):
        sums = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            sums = torch.addmm(sums, a[tile_m, tile_k], b[tile_k, tile_n])
        output[tile_m, tile_n] = sums.to(a.dtype)
    return output
