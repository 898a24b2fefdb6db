"""Matrix product in Triton: bfloat16 in, float32 accumulation on tensor cores, bfloat16 out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

GROUP_ROWS = 8
"""Rows of tiles computed together, so that they share columns of B in L2."""


@dataclass(frozen=True)
class Tile:
    """Tile of a block: `rows` x `columns` of the product, in steps of `depth` along the inner dimension."""

    rows: int
    columns: int
    depth: int
    num_warps: int
    num_stages: int

    def __str__(self) -> str:
        """Return `128x256x64`."""
        return f"{self.rows}x{self.columns}x{self.depth}"


TILES = (Tile(128, 128, 64, num_warps=4, num_stages=4), Tile(128, 256, 64, num_warps=8, num_stages=3))


@triton.jit  # type: ignore[untyped-decorator]
def matmul_kernel(  # type: ignore[no-untyped-def]
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """Compute one tile of C in each program, in groups of GROUP_M rows of tiles."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    per_group = GROUP_M * tiles_n
    first_m = tl.program_id(0) // per_group * GROUP_M
    group_rows = min(tl.cdiv(M, BLOCK_M) - first_m, GROUP_M)
    tile_m = first_m + tl.program_id(0) % per_group % group_rows
    tile_n = tl.program_id(0) % per_group // group_rows

    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    # Rows and columns outside wrap around instead of being masked; their results are not stored.
    a_ptrs = a_ptr + (rows % M)[:, None] * stride_am + inner[None, :] * stride_ak
    b_ptrs = b_ptr + inner[:, None] * stride_bk + (columns % N)[None, :] * stride_bn
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for done in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - done, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - done, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=inside)


def matmul_triton(a: torch.Tensor, b: torch.Tensor, tile: Tile) -> torch.Tensor:
    """Multiply two matrices (M x K, K x N) of any strides."""
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(m, tile.rows) * triton.cdiv(n, tile.columns),)
    matmul_kernel[grid](
        a,
        b,
        c,
        m,
        n,
        k,
        *a.stride(),
        *b.stride(),
        *c.stride(),
        BLOCK_M=tile.rows,
        BLOCK_N=tile.columns,
        BLOCK_K=tile.depth,
        GROUP_M=GROUP_ROWS,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )
    return c
