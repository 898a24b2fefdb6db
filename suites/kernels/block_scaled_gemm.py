"""Matrix product of 8-bit and 4-bit floats with scales along K, in Triton.

Tensor cores know such formats from compute capability 10.0 on. For older ones Triton converts elements and
scales to bfloat16 and multiplies these: the matrices are small in memory, but the work is that of bfloat16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from suites.kernels.gemm import GROUP_ROWS, Tile
from suites.kernels.persistent_gemm import tile_at

if TYPE_CHECKING:
    from suites.kernels.microscaling import Format

TILES = (Tile(128, 128, 128, num_warps=8, num_stages=3), Tile(128, 256, 128, num_warps=8, num_stages=3))
"""Tiles of 128 and 256 columns; `depth` counts elements, not bytes."""


@triton.jit  # type: ignore[untyped-decorator]
def block_scaled_kernel(  # type: ignore[no-untyped-def]
    a_descriptor,
    b_descriptor,
    c_ptr,
    a_scales_ptr,
    b_scales_ptr,
    M,
    N,
    K,
    stride_cm,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    ELEMENTS: tl.constexpr,
    PER_BYTE: tl.constexpr,
    PER_SCALE: tl.constexpr,
):
    """Compute one tile of C in each program; B is N x K."""
    tile_m, tile_n = tile_at(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    groups = tl.arange(0, BLOCK_K // PER_SCALE)
    # Rows and columns outside wrap around instead of being masked; their results are not stored.
    a_scales_ptrs = a_scales_ptr + (rows % M)[:, None] * (K // PER_SCALE) + groups[None, :]
    b_scales_ptrs = b_scales_ptr + (columns % N)[:, None] * (K // PER_SCALE) + groups[None, :]
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for done in range(0, K, BLOCK_K):
        a = a_descriptor.load([tile_m * BLOCK_M, done // PER_BYTE])
        b = b_descriptor.load([tile_n * BLOCK_N, done // PER_BYTE])
        # Past the end of K the elements are zeros, and no scale is read.
        inside = groups[None, :] < (K - done) // PER_SCALE
        a_scales = tl.load(a_scales_ptrs, mask=inside, other=0.0)
        b_scales = tl.load(b_scales_ptrs, mask=inside, other=0.0)
        accumulator = tl.dot_scaled(a, a_scales, ELEMENTS, b.T, b_scales, ELEMENTS, accumulator)
        a_scales_ptrs += BLOCK_K // PER_SCALE
        b_scales_ptrs += BLOCK_K // PER_SCALE

    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :]
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty), mask=inside)


def matmul_block_scaled(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scales: torch.Tensor,
    b_scales: torch.Tensor,
    form: Format,
    tile: Tile,
) -> torch.Tensor:
    """Multiply two matrices with scales, to float16.

    Args:
        a: M rows of elements.
        b: N rows of elements, each a column of the right matrix.
        a_scales: M rows of scales.
        b_scales: N rows of scales.
        form: Format of all four.
        tile: Tile of a block; its depth is a multiple of `form.per_scale`.
    """
    c = torch.empty((a.shape[0], b.shape[0]), device=a.device, dtype=torch.float16)
    grid = (triton.cdiv(c.shape[0], tile.rows) * triton.cdiv(c.shape[1], tile.columns),)
    block_scaled_kernel[grid](
        *arguments(a, b, c, a_scales, b_scales, form, tile),
        **constants(form, tile),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )
    return c


def arguments(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    a_scales: torch.Tensor,
    b_scales: torch.Tensor,
    form: Format,
    tile: Tile,
) -> tuple[object, ...]:
    """Return the arguments of the kernel, without the constexprs."""
    depth = tile.depth // form.per_byte
    return (
        TensorDescriptor.from_tensor(a, [tile.rows, depth]),
        TensorDescriptor.from_tensor(b, [tile.columns, depth]),
        c,
        a_scales,
        b_scales,
        *c.shape,
        a.shape[1] * form.per_byte,
        c.stride(0),
    )


def constants(form: Format, tile: Tile) -> dict[str, int | str]:
    """Return the constexprs of the kernel."""
    return {
        "BLOCK_M": tile.rows,
        "BLOCK_N": tile.columns,
        "BLOCK_K": tile.depth,
        "GROUP_M": GROUP_ROWS,
        "ELEMENTS": form.elements,
        "PER_BYTE": form.per_byte,
        "PER_SCALE": form.per_scale,
    }
