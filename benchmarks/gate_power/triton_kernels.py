"""Triton kernels whose work is a count. Import this module only when needed.

The count is not specialised; otherwise a dose that is a multiple of 16 would compile to another kernel.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["iterations"])  # type: ignore[untyped-decorator]
def arithmetic_kernel(out, iterations, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Compute a chain of multiplications and additions for each element."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = at.to(tl.float32) * 1e-9
    for _ in range(iterations):
        value = value * 0.999 + 0.5
    tl.store(out + at, value)


@triton.jit  # type: ignore[untyped-decorator]
def copy_kernel(out, source, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Copy a block for each program; whole blocks only."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(source + at))


@triton.jit(do_not_specialize=["iterations"])  # type: ignore[untyped-decorator]
def row_sum_kernel(out, source, row_stride, iterations, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Sum `iterations` blocks of a row for each program."""
    row = tl.program_id(0).to(tl.int64)
    at = row * row_stride + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(iterations):
        total += tl.load(source + at)
        at += BLOCK
    tl.store(out + row, tl.sum(total))


@triton.jit(do_not_specialize=["iterations"])  # type: ignore[untyped-decorator]
def histogram_kernel(bins, source, row_stride, iterations, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Count values by atomic additions, a row for each program."""
    at = tl.program_id(0).to(tl.int64) * row_stride + tl.arange(0, BLOCK)
    for _ in range(iterations):
        tl.atomic_add(bins + tl.load(source + at), 1, sem="relaxed")
        at += BLOCK


@triton.jit(do_not_specialize=["iterations"])  # type: ignore[untyped-decorator]
def matmul_kernel(  # type: ignore[no-untyped-def]
    out,
    a,
    b,
    iterations,
    depth,
    columns,
    column_tiles,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Compute a tile of `a @ b` for each program, from `iterations` blocks of the inner dimension."""
    program = tl.program_id(0)
    rows = program // column_tiles * BLOCK_M + tl.arange(0, BLOCK_M)
    across = program % column_tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_at = a + rows[:, None] * depth + inner[None, :]
    b_at = b + inner[:, None] * columns + across[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(iterations):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += BLOCK_K
        b_at += BLOCK_K * columns
    tl.store(out + rows[:, None] * columns + across[None, :], total.to(tl.bfloat16))


@triton.jit  # type: ignore[untyped-decorator]
def gather_kernel(out, table, rows, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """Copy a row of an embedding table for each program."""
    program = tl.program_id(0).to(tl.int64)
    across = tl.arange(0, WIDTH)
    tl.store(out + program * WIDTH + across, tl.load(table + tl.load(rows + program) * WIDTH + across))


@triton.jit  # type: ignore[untyped-decorator]
def layer_norm_kernel(out, source, weight, bias, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """Normalise a row for each program."""
    across = tl.arange(0, WIDTH)
    at = tl.program_id(0).to(tl.int64) * WIDTH + across
    value = tl.load(source + at)
    centred = value - tl.sum(value) / WIDTH
    scale = tl.rsqrt(tl.sum(centred * centred) / WIDTH + 1e-5)
    tl.store(out + at, centred * scale * tl.load(weight + across) + tl.load(bias + across))


@triton.jit  # type: ignore[untyped-decorator]
def cross_entropy_kernel(losses, logits, targets, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """Compute the cross entropy of a row for each program, in one pass."""
    program = tl.program_id(0).to(tl.int64)
    row = logits + program * WIDTH
    value = tl.load(row + tl.arange(0, WIDTH))
    highest = tl.max(value)
    total = tl.log(tl.sum(tl.exp(value - highest))) + highest
    tl.store(losses + program, total - tl.load(row + tl.load(targets + program)))


@triton.jit  # type: ignore[untyped-decorator]
def sparse_product_kernel(  # type: ignore[no-untyped-def]
    out, values, columns, dense, NONZEROS: tl.constexpr, WIDTH: tl.constexpr
):
    """Multiply a sparse row with a dense matrix for each program; all rows have as many non-zeros."""
    program = tl.program_id(0).to(tl.int64)
    across = tl.arange(0, WIDTH)
    at = program * NONZEROS + tl.arange(0, NONZEROS)
    rows = tl.load(dense + tl.load(columns + at)[:, None] * WIDTH + across[None, :])
    tl.store(out + program * WIDTH + across, tl.sum(tl.load(values + at)[:, None] * rows, axis=0))
