"""Kernels that do exactly 0.5, 1, 2 or 5 % more work on demand.

The work is a count, of iterations that every program does or of programs, and a multiple of 200, so that
0.5 % of it is a whole number. What could spoil that is kept away:

- Programs that iterate all fit on the GPU at once (one wave) and do the same number of iterations, so the
  time is a constant (launch, first loads, last stores) plus a share for each iteration.
- The compiler unrolls such loops by four and does what remains one by one, which takes longer: where it
  does, every count is a multiple of four.
- Where the count is one of programs, these are short and come in many waves, so that the end of the last
  wave, in which the GPU runs empty, is a small and constant share.
- Memory, strides and the compiled kernel are the same for all counts.

The constant is not scaled, so a short kernel that does 1 % more work takes a little less than 1 % longer.
What a dose does to the time is measured, and shown beside what was found of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

DOSES_PERMILLE = (0, 5, 10, 20, 50)

Call: TypeAlias = Callable[[], Any]
Build: TypeAlias = Callable[[int, int], Callable[[int], Call]]
"""Takes the GPU's multiprocessors and the largest count; gives what makes a callable of a count."""


@dataclass(frozen=True)
class Dosed:
    """A kernel whose work is a count."""

    name: str
    unit: str
    """Of what there are so many."""
    count: int
    """Without a dose."""
    build: Build
    unrolled: int = 1
    """What the compiler unrolls the loop by."""

    def work(self, permille: int) -> int:
        """The count with a dose, exactly.

        Raises:
            ValueError: It would not be exact.
        """
        extra, rest = divmod(self.count * permille, 1000)
        if rest or (self.count + extra) % self.unrolled:
            raise ValueError(
                f"{self.name}: {self.count} and {permille} ‰ more is no whole number of {self.unit}"
            )
        return self.count + extra


def build_all(multiprocessors: int) -> dict[tuple[str, int], Call]:
    """Every kernel with every dose (per mille), on the current device."""
    calls = {}
    for kernel in KERNELS:
        make = kernel.build(multiprocessors, kernel.work(max(DOSES_PERMILLE)))
        for permille in DOSES_PERMILLE:
            calls[kernel.name, permille] = make(kernel.work(permille))
    return calls


def _arithmetic(multiprocessors: int, _most: int) -> Callable[[int], Call]:
    from benchmarks.gate_power.triton_kernels import arithmetic_kernel

    block, programs = 256, 8 * multiprocessors
    out = torch.empty(programs * block, device="cuda")
    return lambda count: lambda: arithmetic_kernel[(programs,)](out, count, BLOCK=block, num_warps=4)


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
    """Rows and columns of one tile for each multiprocessor, as square as can be: 11 and 12 of 132."""
    rows = max(
        rows
        for rows in range(1, multiprocessors + 1)
        if rows**2 <= multiprocessors and not multiprocessors % rows
    )
    return rows, multiprocessors // rows


KERNELS = (
    Dosed("arithmetic 10 µs", "iterations", 800, _arithmetic, unrolled=4),
    Dosed("arithmetic 50 µs", "iterations", 4_000, _arithmetic, unrolled=4),
    Dosed("arithmetic 200 µs", "iterations", 16_000, _arithmetic, unrolled=4),
    Dosed("arithmetic 500 µs", "iterations", 40_000, _arithmetic, unrolled=4),
    Dosed("copy 512 MB", "programs", 62_400, _copy(1024)),
    Dosed("copy 33 MB", "programs", 16_000, _copy(256)),
    Dosed("row sum", "iterations", 800, _row_sum, unrolled=4),
    # On an H200 its 16 KB lie in the nearer or the farther half of L2, as it happens: 60 % of its time.
    Dosed("histogram, atomic", "iterations", 800, _histogram(4096), unrolled=4),
    Dosed("histogram 4 MB, atomic", "iterations", 800, _histogram(1 << 20), unrolled=4),
    Dosed("matmul bf16", "iterations", 200, _matmul),
)
"""The copies' sizes are what is read and written together; the microseconds are those of an H200, roughly."""

POWER_LIMITED = ("matmul bf16",)
"""Those that run below the highest clock."""
