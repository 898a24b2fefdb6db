"""Runs the suites' matrix products in a process with Triton's interpreter.

float16 replaces bfloat16, which the interpreter cannot multiply; nvfp4 is left out: it reads its scales as
powers of two.
"""

from __future__ import annotations

import torch

from suites.kernels.block_scaled_gemm import matmul_block_scaled
from suites.kernels.gemm import Tile, matmul_triton
from suites.kernels.microscaling import MXFP4, MXFP8, Format, exact_block_scaled, random_matrix
from suites.kernels.persistent_gemm import matmul_persistent, matmul_tma
from suites.kernels.stream_k_gemm import matmul_stream_k

TILE = Tile(32, 32, 16, num_warps=4, num_stages=2)
DEEP_TILE = Tile(32, 32, 64, num_warps=4, num_stages=2)
PROGRAMS = (1, 5, 100)
"""Numbers of programs: one, one that shares tiles unevenly, and one above the number of tiles."""

MARGIN = 64
"""Elements around a matrix; a multiple of the row alignment of TMA."""


def difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest difference over the largest value; NaN if the output has a NaN."""
    return float((actual.double() - expected).abs().max() / expected.abs().max())


def amid_nan(matrix: torch.Tensor) -> torch.Tensor:
    """Return a copy of the matrix with NaN around its edges."""
    rows, columns = matrix.shape
    space = torch.full((rows + 2 * MARGIN, columns + 2 * MARGIN), torch.nan, dtype=matrix.dtype)
    inside = space[MARGIN : MARGIN + rows, MARGIN : MARGIN + columns]
    inside.copy_(matrix)
    return inside


def of_halves(m: int, n: int, k: int) -> dict[str, float]:
    """Return the difference of each product of plain floats."""
    a, b = (amid_nan(torch.randn(shape).half()) for shape in ((m, k), (k, n)))
    expected = a.double() @ b.double()
    found = {"tiled": difference(matmul_triton(a, b, TILE), expected)}
    for programs in PROGRAMS:
        persistent = matmul_persistent(a, b, TILE, programs=programs)
        found[f"persistent-{programs}"] = difference(persistent, expected)
        stream_k = matmul_stream_k(a, b, TILE, programs=programs)
        found[f"stream_k-{programs}"] = difference(stream_k, expected)
        if k % 8 == n % 8 == 0:
            found[f"tma-{programs}"] = difference(matmul_tma(a, b, TILE, programs=programs), expected)
    return found


def of_bytes(form: Format, m: int, n: int, k: int) -> float:
    """Return the difference of the block-scaled product."""
    a, a_scales = random_matrix(form, m, k, torch.device("cpu"))
    b, b_scales = random_matrix(form, n, k, torch.device("cpu"))
    product = matmul_block_scaled(a, b, a_scales, b_scales, form, DEEP_TILE)
    return difference(product, exact_block_scaled(a, b, a_scales, b_scales, form))


def all_errors() -> dict[str, float]:
    """Return the difference of each product, by its name and shape."""
    torch.manual_seed(0)
    errors = {
        f"{name} {'x'.join(map(str, shape))}": error
        for shape in ((64, 32, 32), (72, 40, 24), (33, 65, 40), (1, 1, 1))
        for name, error in of_halves(*shape).items()
    }
    for form in (MXFP8, MXFP4):
        for shape in ((64, 64, 128), (50, 71, 96)):
            errors[f"{form} {'x'.join(map(str, shape))}"] = of_bytes(form, *shape)
    return errors
