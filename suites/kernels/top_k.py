"""The k largest elements of each row of a matrix and their columns, by a bitonic top-k in registers.

The network is that of `tl.topk` (Shanbhag, Pirk, Madden, "Efficient Top-K Query Processing on Massively
Parallel Hardware", SIGMOD 2018). It moves single values, so one integer holds value and column.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

MOST_COLUMNS = 1 << 16
"""Number of columns that the lower half of a key can distinguish."""
NUM_WARPS = 8


@triton.jit
def _flipped(bits):  # type: ignore[no-untyped-def]
    """Convert the sign-extended bits of a 16-bit float to an integer in the same order, or back."""
    return bits ^ ((bits >> 31) & 0x7FFF)


@triton.jit  # type: ignore[untyped-decorator]
def top_k_kernel(  # type: ignore[no-untyped-def]
    values_ptr,
    indices_ptr,
    input_ptr,
    input_row_stride,
    columns,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute one row in each program. Of equal values the first comes first; NaN is the largest."""
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(input_ptr + row * input_row_stride + offsets, mask=inside, other=0.0)
    ordered = _flipped(values.to(tl.int16, bitcast=True).to(tl.int32))
    # A larger key is a larger value, or an equal one further to the left.
    keys = tl.where(inside, (ordered << 16) | (0xFFFF - offsets), -(2**31))
    best = tl.topk(keys, K)
    largest = _flipped(best >> 16).to(tl.int16).to(input_ptr.dtype.element_ty, bitcast=True)
    kept = row * K + tl.arange(0, K)
    tl.store(values_ptr + kept, largest)
    tl.store(indices_ptr + kept, (0xFFFF - (best & 0xFFFF)).to(tl.int64))


def top_k_triton(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the largest of each row, in descending order, as `torch.topk` does.

    Args:
        x: Matrix of a 16-bit floating-point type with contiguous rows of at most MOST_COLUMNS.
        k: Number of elements; a power of two from 2 to the number of columns.

    Returns:
        Values and int64 columns, each rows x k.
    """
    rows, columns = x.shape
    if x.element_size() != 2 or not k <= columns <= MOST_COLUMNS:
        message = f"top {k} of rows of {columns} x {x.dtype}: 16-bit floats, k to {MOST_COLUMNS} columns"
        raise ValueError(message)
    values = torch.empty((rows, k), device=x.device, dtype=x.dtype)
    indices = torch.empty((rows, k), device=x.device, dtype=torch.int64)
    top_k_kernel[(rows,)](
        values,
        indices,
        x,
        x.stride(0),
        columns,
        K=k,
        BLOCK=triton.next_power_of_2(columns),
        num_warps=NUM_WARPS,
    )
    return values, indices
