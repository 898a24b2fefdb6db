"""Softmax of the rows of a matrix, each held in registers: read once, written once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

NUM_WARPS = 8


@triton.jit  # type: ignore[untyped-decorator]
def softmax_kernel(output_ptr, input_ptr, output_row_stride, input_row_stride, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Compute one row in each program, in float32."""
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(input_ptr + row * input_row_stride + offsets, mask=inside, other=-float("inf"))
    values = values.to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    result = powers / tl.sum(powers, axis=0)
    tl.store(
        output_ptr + row * output_row_stride + offsets, result.to(output_ptr.dtype.element_ty), mask=inside
    )


def softmax_triton(x: torch.Tensor) -> torch.Tensor:
    """Compute the softmax of each row; rows are contiguous and fit into the registers of a block."""
    rows, columns = x.shape
    output = torch.empty_like(x)
    softmax_kernel[(rows,)](
        output,
        x,
        output.stride(0),
        x.stride(0),
        columns,
        BLOCK=triton.next_power_of_2(columns),
        num_warps=NUM_WARPS,
    )
    return output
