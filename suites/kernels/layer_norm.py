"""Layer norm of the rows of a matrix, each held in registers: read once, written once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

EPSILON = 1e-5
"""Default of torch."""
NUM_WARPS = 8


@triton.jit  # type: ignore[untyped-decorator]
def layer_norm_kernel(  # type: ignore[no-untyped-def]
    output_ptr,
    input_ptr,
    weight_ptr,
    bias_ptr,
    output_row_stride,
    input_row_stride,
    columns,
    epsilon,
    BLOCK: tl.constexpr,
):
    """Normalise one row in each program, in float32."""
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(input_ptr + row * input_row_stride + offsets, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    # A second pass over registers avoids the cancellation of a mean of squares.
    centred = tl.where(inside, values - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / columns
    weight = tl.load(weight_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    result = centred * tl.rsqrt(variance + epsilon) * weight + bias
    tl.store(
        output_ptr + row * output_row_stride + offsets, result.to(output_ptr.dtype.element_ty), mask=inside
    )


def layer_norm_triton(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Normalise each row of a matrix whose rows are contiguous and fit into a block's registers."""
    rows, columns = x.shape
    output = torch.empty_like(x)
    layer_norm_kernel[(rows,)](
        output,
        x,
        weight,
        bias,
        output.stride(0),
        x.stride(0),
        columns,
        EPSILON,
        BLOCK=triton.next_power_of_2(columns),
        num_warps=NUM_WARPS,
    )
    return output
