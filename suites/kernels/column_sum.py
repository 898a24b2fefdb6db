"""Sums of the columns of a matrix, as in the gradient of a bias: blocks add their parts by atomics."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK_ROWS = 8
BLOCK_COLUMNS = 256
"""Rows and columns loaded at a time: with 4 warps two loads of 16 bytes a thread for 2-byte elements. With 16
rows the kernel spilled on `sm_100`."""
STEPS = 32
"""Number of such loads before a program adds to the result."""


@triton.jit  # type: ignore[untyped-decorator]
def column_sum_kernel(  # type: ignore[no-untyped-def]
    output_ptr,
    input_ptr,
    rows,
    columns,
    input_row_stride,
    STEPS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    """Add STEPS x BLOCK_ROWS rows of BLOCK_COLUMNS columns to the result in each program, in float32."""
    first_row = tl.program_id(0).to(tl.int64) * (STEPS * BLOCK_ROWS)
    column = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    sums = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
    for step in range(STEPS):
        row = first_row + step * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
        inside = (row[:, None] < rows) & (column[None, :] < columns)
        values = tl.load(
            input_ptr + row[:, None] * input_row_stride + column[None, :], mask=inside, other=0.0
        )
        sums += values.to(tl.float32)
    tl.atomic_add(output_ptr + column, tl.sum(sums, axis=0), mask=column < columns, sem="relaxed")


def column_sum_triton(x: torch.Tensor) -> torch.Tensor:
    """Sum each column of a matrix whose rows are contiguous.

    Returns:
        float32. Blocks add in any order, so the last bits differ from call to call.
    """
    rows, columns = x.shape
    # Set to zero within the call, because every call adds to the result.
    output = torch.zeros(columns, device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(rows, STEPS * BLOCK_ROWS), triton.cdiv(columns, BLOCK_COLUMNS))
    column_sum_kernel[grid](
        output,
        x,
        rows,
        columns,
        x.stride(0),
        STEPS=STEPS,
        BLOCK_ROWS=BLOCK_ROWS,
        BLOCK_COLUMNS=BLOCK_COLUMNS,
        num_warps=4,
    )
    return output
