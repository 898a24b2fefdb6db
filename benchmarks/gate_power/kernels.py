"""Kernels that do exactly 0.5, 1, 2 or 5 % more work on demand.

The work is a number of iterations of every program, or of programs. It is a multiple of 200, so that 0.5 % of
it is a whole number. Time must follow it exactly:

- Programs that iterate all fit on the GPU at once (one wave) and do the same number of iterations, so the
  time is a constant (launch, first loads, last stores) plus a share for each iteration.
- The compiler unrolls such loops by four and runs the remainder one by one, which takes longer. So these
  numbers are multiples of four.
- Kernels with a number of programs have short ones in many waves, so that the end of the last wave, in which
  the GPU runs empty, is a small and constant share.
- Memory, strides and the compiled kernel are the same for all numbers.

The constant does not grow, so a short kernel with 1 % more work takes a little less than 1 % longer. The
effect of each dose on the time is measured and shown with the results.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch

DOSES_PERMILLE = (0, 5, 10, 20, 50)

Call: TypeAlias = Callable[[], Any]
Build: TypeAlias = Callable[[int, int], Callable[[int], Call]]
"""Function of the number of multiprocessors and the largest count; returns a maker of callables by count."""


@dataclass(frozen=True)
class Dosed:
    """Kernel whose work is a count."""

    name: str
    unit: str
    """Unit of the count."""
    count: int
    """Count without a dose."""
    build: Build
    unrolled: int = 1
    """Factor by which the compiler unrolls the loop."""
    mode: Literal["hot", "cold", "kernels", "host"] = "hot"
    """Timing mode: `kernels` for a call that waits for the GPU, `host` for one whose work is to launch."""

    def work(self, permille: int) -> int:
        """Return the count with a dose.

        Raises:
            ValueError: The count would not be exact.
        """
        extra, rest = divmod(self.count * permille, 1000)
        if rest or (self.count + extra) % self.unrolled:
            raise ValueError(
                f"{self.name}: {self.count} and {permille} ‰ more is not a whole number of {self.unit}"
            )
        return self.count + extra


def build_again(name: str, permille: int, multiprocessors: int) -> Call:
    """Build a kernel with a dose on tensors of its own."""
    (kernel,) = (one for one in KERNELS if one.name == name)
    return kernel.build(multiprocessors, kernel.work(max(DOSES_PERMILLE)))(kernel.work(permille))


def modes() -> dict[str, str]:
    """Return the timing mode of each kernel."""
    return {kernel.name: kernel.mode for kernel in KERNELS}


def named(pattern: str) -> list[Dosed]:
    """Return the kernels whose names contain a regular expression."""
    return [kernel for kernel in KERNELS if re.search(pattern, kernel.name)]


def build_all(multiprocessors: int, pattern: str = "") -> dict[tuple[str, int], Call]:
    """Build kernels with every dose (in ‰) on the current device; see `named`."""
    calls = {}
    for kernel in named(pattern):
        make = kernel.build(multiprocessors, kernel.work(max(DOSES_PERMILLE)))
        for permille in DOSES_PERMILLE:
            calls[kernel.name, permille] = make(kernel.work(permille))
    return calls


def _arithmetic(programs_each: int = 8, *, waits: bool = False) -> Build:
    def build(multiprocessors: int, _most: int) -> Callable[[int], Call]:
        from benchmarks.gate_power.triton_kernels import arithmetic_kernel

        block, programs = 256, programs_each * multiprocessors
        out = torch.empty(programs * block, device="cuda")

        def make(count: int) -> Call:
            def call() -> Any:
                arithmetic_kernel[(programs,)](out, count, BLOCK=block, num_warps=4)
                return float(out[0]) if waits else None

            return call

        return make

    return build


def _copy(block: int) -> Build:
    def build(_multiprocessors: int, most: int) -> Callable[[int], Call]:
        from benchmarks.gate_power.triton_kernels import copy_kernel

        source = torch.randn(most * block, device="cuda")
        out = torch.empty_like(source)
        return lambda count: lambda: copy_kernel[(count,)](out, source, BLOCK=block, num_warps=4)

    return build


def _row_sum(multiprocessors: int, most: int) -> Callable[[int], Call]:
    from benchmarks.gate_power.triton_kernels import row_sum_kernel

    block, rows = 128, 8 * multiprocessors
    source = torch.randn(rows, most * block, device="cuda")
    out = torch.empty(rows, device="cuda")
    return lambda count: (
        lambda: row_sum_kernel[(rows,)](out, source, most * block, count, BLOCK=block, num_warps=1)
    )


def _histogram(bins: int) -> Build:
    def build(multiprocessors: int, most: int) -> Callable[[int], Call]:
        from benchmarks.gate_power.triton_kernels import histogram_kernel

        block, rows = 128, 2 * multiprocessors
        source = torch.randint(bins, (rows, most * block), device="cuda", dtype=torch.int32)
        counts = torch.zeros(bins, device="cuda", dtype=torch.int32)
        return lambda count: (
            lambda: histogram_kernel[(rows,)](counts, source, most * block, count, BLOCK=block, num_warps=4)
        )

    return build


def _gather(_multiprocessors: int, most: int) -> Callable[[int], Call]:
    from benchmarks.gate_power.triton_kernels import gather_kernel

    width = 256
    table = torch.randn(most, width, device="cuda")
    rows = torch.randint(most, (most,), device="cuda")
    out = torch.empty_like(table)
    return lambda count: lambda: gather_kernel[(count,)](out, table, rows, WIDTH=width, num_warps=4)


def _layer_norm(_multiprocessors: int, most: int) -> Callable[[int], Call]:
    from benchmarks.gate_power.triton_kernels import layer_norm_kernel

    width = 1024
    source, weight, bias = (torch.randn(rows, width, device="cuda") for rows in (most, 1, 1))
    out = torch.empty_like(source)
    return lambda count: (
        lambda: layer_norm_kernel[(count,)](out, source, weight, bias, WIDTH=width, num_warps=4)
    )


def _cross_entropy(_multiprocessors: int, most: int) -> Callable[[int], Call]:
    from benchmarks.gate_power.triton_kernels import cross_entropy_kernel

    width = 4096
    logits = torch.randn(most, width, device="cuda")
    targets = torch.randint(width, (most,), device="cuda")
    losses = torch.empty(most, device="cuda")
    return lambda count: (
        lambda: cross_entropy_kernel[(count,)](losses, logits, targets, WIDTH=width, num_warps=8)
    )


def _sparse_product(_multiprocessors: int, most: int) -> Callable[[int], Call]:
    from benchmarks.gate_power.triton_kernels import sparse_product_kernel

    nonzeros, width = 32, 64
    values = torch.randn(most, nonzeros, device="cuda")
    columns = torch.randint(most, (most, nonzeros), device="cuda")
    dense = torch.randn(most, width, device="cuda")
    out = torch.empty_like(dense)
    return lambda count: (
        lambda: sparse_product_kernel[(count,)](
            out, values, columns, dense, NONZEROS=nonzeros, WIDTH=width, num_warps=4
        )
    )


def _attention(*, backward: bool) -> Build:
    def build(_multiprocessors: int, most: int) -> Callable[[int], Call]:
        query, key, value, grad = torch.randn(4, 1, most, 512, 64, device="cuda").to(torch.bfloat16).unbind()

        def make(count: int) -> Call:
            heads = [one[:, :count].detach().requires_grad_(backward) for one in (query, key, value)]

            def forward() -> torch.Tensor:
                return torch.nn.functional.scaled_dot_product_attention(heads[0], heads[1], heads[2])

            if not backward:
                return forward
            return lambda: torch.autograd.grad(forward(), heads, grad[:, :count])

        return make

    return build


def _launches(_multiprocessors: int, _most: int) -> Callable[[int], Call]:
    x = torch.zeros(1024, device="cuda")

    def make(count: int) -> Call:
        def call() -> None:
            for _ in range(count):
                x.add_(1)

        return call

    return make


def _matmul(multiprocessors: int, most: int) -> Callable[[int], Call]:
    from benchmarks.gate_power.triton_kernels import matmul_kernel

    tile, inner = 128, 64
    row_tiles, column_tiles = tiles(multiprocessors)
    depth = most * inner
    a = torch.randn(row_tiles * tile, depth, device="cuda").to(torch.bfloat16)
    b = torch.randn(depth, column_tiles * tile, device="cuda").to(torch.bfloat16)
    out = torch.empty(row_tiles * tile, column_tiles * tile, device="cuda", dtype=torch.bfloat16)
    return lambda count: (
        lambda: matmul_kernel[(row_tiles * column_tiles,)](
            out,
            a,
            b,
            count,
            depth,
            column_tiles * tile,
            column_tiles,
            BLOCK_M=tile,
            BLOCK_N=tile,
            BLOCK_K=inner,
            num_warps=4,
            num_stages=4,
        )
    )


def tiles(multiprocessors: int) -> tuple[int, int]:
    """Return rows and columns of one tile for each multiprocessor, nearly square: 11 and 12 for 132."""
    rows = max(
        rows
        for rows in range(1, multiprocessors + 1)
        if rows**2 <= multiprocessors and not multiprocessors % rows
    )
    return rows, multiprocessors // rows


KERNELS = (
    Dosed("arithmetic 3 µs", "iterations", 800, _arithmetic(1), unrolled=4),
    Dosed("arithmetic 10 µs", "iterations", 800, _arithmetic(), unrolled=4),
    Dosed("arithmetic 50 µs", "iterations", 4_000, _arithmetic(), unrolled=4),
    Dosed("arithmetic 200 µs", "iterations", 16_000, _arithmetic(), unrolled=4),
    Dosed("arithmetic 500 µs", "iterations", 40_000, _arithmetic(), unrolled=4),
    Dosed("arithmetic that waits", "iterations", 16_000, _arithmetic(waits=True), unrolled=4, mode="kernels"),
    Dosed("copy 512 MB", "programs", 62_400, _copy(1024)),
    Dosed("copy 33 MB", "programs", 16_000, _copy(256)),
    Dosed("copy 33 MB, cold", "programs", 16_000, _copy(256), mode="cold"),
    Dosed("row sum", "iterations", 800, _row_sum, unrolled=4),
    # On an H200 its 16 KB are by chance in the nearer or the farther half of L2: 60 % of its time.
    Dosed("histogram, atomic", "iterations", 800, _histogram(4096), unrolled=4),
    Dosed("histogram 4 MB, atomic", "iterations", 800, _histogram(1 << 20), unrolled=4),
    Dosed("embedding gather", "programs", 64_000, _gather),
    Dosed("sparse product", "programs", 64_000, _sparse_product),
    Dosed("layer norm", "programs", 32_000, _layer_norm),
    Dosed("layer norm, cold", "programs", 32_000, _layer_norm, mode="cold"),
    Dosed("cross entropy", "programs", 16_000, _cross_entropy),
    Dosed("attention", "heads", 800, _attention(backward=False)),
    Dosed("attention with backward", "heads", 800, _attention(backward=True)),
    Dosed("matmul bf16", "iterations", 200, _matmul),
    Dosed("launches, by the host's clock", "launches", 200, _launches, mode="host"),
)
"""All kernels. Sizes of copies count bytes read and written; microseconds are rough values for an H200."""

IN_STEPS = ("attention", "attention with backward")
"""Kernels whose time grows in steps, with each further wave of programs: only their unchanged code counts."""
BY_HOST = frozenset(kernel.name for kernel in KERNELS if kernel.mode == "host")
POWER_LIMITED = ("matmul bf16", "attention", "attention with backward")
"""Kernels that run below the highest clock."""
