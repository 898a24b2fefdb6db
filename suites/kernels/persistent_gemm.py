"""Matrix products with a program for each SM, which computes tile after tile.

Programs start once, and the loads for a tile begin before the last one is stored; both matter most for small
K. The second kernel copies its tiles by TMA from compute capability 9.0 on; for older ones Triton makes plain
loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from suites.kernels.gemm import GROUP_ROWS

if TYPE_CHECKING:
    from suites.kernels.gemm import Tile


@triton.jit  # type: ignore[untyped-decorator]
def tile_at(number, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return row and column of a tile, counted in groups of GROUP_M rows of tiles."""
    per_group = GROUP_M * tl.cdiv(N, BLOCK_N)
    first_m = number // per_group * GROUP_M
    group_rows = min(tl.cdiv(M, BLOCK_M) - first_m, GROUP_M)
    return first_m + number % per_group % group_rows, number % per_group // group_rows


@triton.jit  # type: ignore[untyped-decorator]
def persistent_kernel(  # type: ignore[no-untyped-def]
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
    PROGRAMS: tl.constexpr,
):
    """Compute every PROGRAMS-th tile of C in each program."""
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    # One loop of tiles and steps, so that the loads for a tile begin before the last one is stored.
    for number in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True):
        tile_m, tile_n = tile_at(number, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        # Rows and columns outside wrap around instead of being masked; their results are not stored.
        # Pointers are incremented: if computed in each step, Triton 3.6 and 3.9 keep fewer loads in flight.
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


@triton.jit  # type: ignore[untyped-decorator]
def persistent_tma_kernel(  # type: ignore[no-untyped-def]
    a_descriptor,
    b_descriptor,
    c_descriptor,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    PROGRAMS: tl.constexpr,
    SPECIALISE: tl.constexpr,
):
    """Compute like `persistent_kernel`; outside a matrix TMA reads zeros and writes nothing.

    With SPECIALISE some warps of a program copy and others multiply, if the compiler supports it.
    """
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for number in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True, warp_specialize=SPECIALISE):
        tile_m, tile_n = tile_at(number, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for done in range(0, K, BLOCK_K):
            a = a_descriptor.load([tile_m * BLOCK_M, done])
            b = b_descriptor.load([done, tile_n * BLOCK_N])
            accumulator = tl.dot(a, b, accumulator)
        c_descriptor.store([tile_m * BLOCK_M, tile_n * BLOCK_N], accumulator.to(c_descriptor.dtype))


def matmul_persistent(
    a: torch.Tensor, b: torch.Tensor, tile: Tile, *, programs: int | None = None
) -> torch.Tensor:
    """Multiply two matrices (M x K, K x N) of any strides.

    Args:
        a: Left matrix.
        b: Right matrix.
        tile: Tile of a program.
        programs: Largest number of programs; by default the number of SMs.
    """
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    programs = programs_for(a, b, tile, programs)
    persistent_kernel[(programs,)](
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
        PROGRAMS=programs,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )
    return c


def matmul_tma(
    a: torch.Tensor, b: torch.Tensor, tile: Tile, *, specialise: bool = False, programs: int | None = None
) -> torch.Tensor:
    """Multiply matrices whose rows are contiguous and begin at multiples of 16 bytes.

    Args:
        a: Left matrix.
        b: Right matrix.
        tile: Tile of a program.
        specialise: Have some warps copy while others multiply, from compute capability 10.0 on; Triton
            ignores it on 9.0.
        programs: Largest number of programs; by default the number of SMs.
    """
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    programs = programs_for(a, b, tile, programs)
    persistent_tma_kernel[(programs,)](
        *descriptors(a, b, c, tile),
        m,
        n,
        k,
        BLOCK_M=tile.rows,
        BLOCK_N=tile.columns,
        BLOCK_K=tile.depth,
        GROUP_M=GROUP_ROWS,
        PROGRAMS=programs,
        SPECIALISE=specialise,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )
    return c


def programs_for(a: torch.Tensor, b: torch.Tensor, tile: Tile, programs: int | None) -> int:
    """Return one program for each tile, up to `programs` or else the number of SMs."""
    if programs is None:
        programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    tiles: int = triton.cdiv(a.shape[0], tile.rows) * triton.cdiv(b.shape[1], tile.columns)
    return min(programs, tiles)


def descriptors(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, tile: Tile) -> list[TensorDescriptor]:
    """Return the TMA descriptors of the matrices and their blocks."""
    blocks = ([tile.rows, tile.depth], [tile.depth, tile.columns], [tile.rows, tile.columns])
    return [TensorDescriptor.from_tensor(one, block) for one, block in zip((a, b, c), blocks, strict=True)]
