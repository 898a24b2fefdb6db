"""Matrix product of few tiles and a long inner dimension: every SM multiplies an equal share.

A product with fewer tiles than SMs leaves SMs idle if one program computes each tile. Here the steps along K
of all tiles form one row of work, which is cut into equal shares across tiles (stream-K,
https://arxiv.org/abs/2301.03598). A second kernel adds the parts of each tile in a fixed order, so that
results repeat exactly, unlike with atomics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from suites.kernels.gemm import Tile

ROWS_SUMMED = 16
"""Rows of a tile that a program of the second kernel adds: few, because there are few tiles."""


@triton.jit  # type: ignore[untyped-decorator]
def stream_k_kernel(  # type: ignore[no-untyped-def]
    a_ptr,
    b_ptr,
    parts_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    share,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """Compute `share` steps in each program and store a part for each of their tiles, at most SLOTS."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    begin = tl.program_id(0) * share
    end = min(begin + share, tl.cdiv(M, BLOCK_M) * tiles_n * steps)
    inner = tl.arange(0, BLOCK_K)
    inside_part = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    for tile in range(begin // steps, tl.cdiv(end, steps)):
        rows = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
        first = max(begin - tile * steps, 0) * BLOCK_K
        end_of_part = min((end - tile * steps) * BLOCK_K, K)
        # Rows and columns outside wrap around instead of being masked; their results are not stored.
        a_ptrs = a_ptr + (rows % M)[:, None] * stride_am + (first + inner)[None, :] * stride_ak
        b_ptrs = b_ptr + (first + inner)[:, None] * stride_bk + (columns % N)[None, :] * stride_bn
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for done in range(first, end_of_part, BLOCK_K):
            a = tl.load(a_ptrs, mask=inner[None, :] < K - done, other=0.0)
            b = tl.load(b_ptrs, mask=inner[:, None] < K - done, other=0.0)
            accumulator = tl.dot(a, b, accumulator)
            a_ptrs += BLOCK_K * stride_ak
            b_ptrs += BLOCK_K * stride_bk
        part = tl.program_id(0) * SLOTS + tile - begin // steps
        tl.store(parts_ptr + part * (BLOCK_M * BLOCK_N) + inside_part, accumulator)


@triton.jit  # type: ignore[untyped-decorator]
def sum_parts_kernel(  # type: ignore[no-untyped-def]
    parts_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_cm,
    stride_cn,
    share,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SLOTS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Add ROWS rows of all parts of one tile in each program."""
    tiles_n = tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    tile = tl.program_id(0)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK_N)
    total = tl.zeros((ROWS, BLOCK_N), dtype=tl.float32)
    for program in range(tile * steps // share, tl.cdiv((tile + 1) * steps, share)):
        part = program * SLOTS + tile - program * share // steps
        start = parts_ptr + part * (BLOCK_M * BLOCK_N)
        total += tl.load(start + rows[:, None] * BLOCK_N + columns[None, :])
    rows += tile // tiles_n * BLOCK_M
    columns += tile % tiles_n * BLOCK_N
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))


def matmul_stream_k(
    a: torch.Tensor, b: torch.Tensor, tile: Tile, *, programs: int | None = None
) -> torch.Tensor:
    """Multiply two matrices (M x K, K x N) of any strides.

    Args:
        a: Left matrix.
        b: Right matrix.
        tile: Tile of a program.
        programs: Number of programs that share the work; by default the number of SMs.
    """
    (m, k), n = a.shape, b.shape[1]
    tiles, steps = triton.cdiv(m, tile.rows) * triton.cdiv(n, tile.columns), triton.cdiv(k, tile.depth)
    if programs is None:
        programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    share = triton.cdiv(tiles * steps, programs)
    programs = triton.cdiv(tiles * steps, share)
    slots = slots_of(share, steps)
    parts = torch.empty((programs, slots, tile.rows, tile.columns), device=a.device, dtype=torch.float32)
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    blocks = {"BLOCK_M": tile.rows, "BLOCK_N": tile.columns, "BLOCK_K": tile.depth, "SLOTS": slots}
    stream_k_kernel[(programs,)](
        a,
        b,
        parts,
        m,
        n,
        k,
        *a.stride(),
        *b.stride(),
        share,
        **blocks,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )
    sum_parts_kernel[(tiles, tile.rows // ROWS_SUMMED)](
        parts, c, m, n, k, *c.stride(), share, **blocks, ROWS=ROWS_SUMMED
    )
    return c


def slots_of(share: int, steps: int) -> int:
    """Return the largest number of tiles of `steps` steps that a share can touch."""
    return (share + steps - 2) // steps + 1
