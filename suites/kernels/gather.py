"""Gather short rows of a table by their numbers, as in an embedding."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK_ELEMENTS = 4096
"""Elements of a program: with 4 warps four loads of 16 bytes a thread in flight, for 2-byte elements."""


@triton.jit  # type: ignore[untyped-decorator]
def gather_kernel(  # type: ignore[no-untyped-def]
    output_ptr,
    table_ptr,
    numbers_ptr,
    rows,
    columns,
    table_row_stride,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    """Gather BLOCK_ROWS rows in each program."""
    row = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.arange(0, BLOCK_COLUMNS)
    number = tl.load(numbers_ptr + row, mask=row < rows, other=0)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    values = tl.load(table_ptr + number[:, None] * table_row_stride + column[None, :], mask=inside)
    tl.store(output_ptr + row[:, None] * columns + column[None, :], values, mask=inside)


def block_of(columns: int) -> tuple[int, int]:
    """Return rows and columns of a program."""
    block_columns = triton.next_power_of_2(columns)
    return max(1, BLOCK_ELEMENTS // block_columns), block_columns


def gather_triton(table: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Gather rows.

    Args:
        table: Matrix whose rows are contiguous.
        numbers: Numbers of the rows to gather, int64.
    """
    rows, columns = numbers.numel(), table.shape[1]
    output = torch.empty((rows, columns), device=table.device, dtype=table.dtype)
    block_rows, block_columns = block_of(columns)
    gather_kernel[(triton.cdiv(rows, block_rows),)](
        output,
        table,
        numbers,
        rows,
        columns,
        table.stride(0),
        BLOCK_ROWS=block_rows,
        BLOCK_COLUMNS=block_columns,
        num_warps=4,
    )
    return output
