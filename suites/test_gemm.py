"""Matrix products: large ones that keep tensor cores busy, and small ones that cannot fill a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from suites.kernels.gemm import TILES, Tile, matmul_triton
from suites.products import BFLOAT16_RTOL, CUBLAS, accumulation_error, exact_product, matrices

if TYPE_CHECKING:
    from pytest_gpuperf import Gpuperf


def matmul_cublas(a: torch.Tensor, b: torch.Tensor, _tile: Tile) -> torch.Tensor:
    return torch.mm(a, b)


@pytest.mark.gpuperf(limits={"tensor_active": ">= 40"})
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_large_triton(gpuperf: Gpuperf, tile: Tile) -> None:
    n = 4096
    a, b = matrices(gpuperf, (n, n), (n, n), dtype=torch.bfloat16)
    gpuperf.compare(
        {"cublas": matmul_cublas, "main": matmul_triton},
        a,
        b,
        tile,
        expected=exact_product,
        rtol=BFLOAT16_RTOL,
        atol=accumulation_error(n),
        flops=2 * n**3,
    )


@pytest.mark.gpuperf(kernels=r"matmul_kernel")
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_odd_triton(gpuperf: Gpuperf, tile: Tile) -> None:
    """No dimension is a multiple of the tile: every mask is needed, and rows are not aligned."""
    m, n, k = 1000, 1031, 517
    a, b = matrices(gpuperf, (m, k), (k, n), dtype=torch.bfloat16)
    gpuperf(
        matmul_triton,
        a,
        b,
        tile,
        expected=exact_product,
        rtol=BFLOAT16_RTOL,
        atol=accumulation_error(k),
        flops=2 * m * n * k,
    )


@pytest.mark.gpuperf(
    kernels=CUBLAS, limits={"tensor_active": "<= 1 %", "sm_throughput": "<= 50", "waves": "<= 1"}
)
def test_small_batched_cublas(gpuperf: Gpuperf) -> None:
    """About one block for each of few products leaves most of the GPU idle.

    Products of float32 use no tensor cores unless TF32 is allowed, which would miss the tolerance.
    """
    batch, n = 16, 64
    a, b = matrices(gpuperf, (batch, n, n), (batch, n, n), dtype=torch.float32)
    gpuperf(
        torch.bmm,
        a,
        b,
        expected=exact_product,
        rtol=1.3e-6,
        atol=accumulation_error(n),
        flops=2 * batch * n**3,
    )
