"""Matrix products on tensor cores: a suitable kernel for each class of shapes, compared with cuBLAS."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch

from suites.kernels.gemm import TILES, Tile, matmul_triton
from suites.kernels.persistent_gemm import matmul_persistent, matmul_tma
from suites.kernels.stream_k_gemm import matmul_stream_k
from suites.products import BFLOAT16_RTOL, CUBLAS, accumulation_error, exact_product, matrices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_gpuperf import Gpuperf

pytestmark = pytest.mark.gpuperf(
    kernels=[CUBLAS, r"matmul_kernel", r"persistent", r"stream_k_kernel", r"sum_parts_kernel"]
)

SMALL_TILE, LARGE_TILE = TILES
FLAT_TILE = Tile(16, 64, 128, num_warps=4, num_stages=5)
"""Tile for few rows: many blocks, each with many bytes in flight."""
FIRST_TO_SPECIALISE = (10, 0)
"""First compute capability with specialised warps; on 9.0 Triton ignores them: see `test_static_gemm.py`."""


class Shape(NamedTuple):
    """Shape of a product of M x K and K x N."""

    m: int
    n: int
    k: int


SMALL_K = Shape(8192, 8192, 512)
LARGE_K = Shape(4096, 4096, 8192)
SMALL_MN = Shape(768, 768, 16384)
FEW_ROWS = Shape(16, 8192, 8192)


@pytest.fixture(autouse=True)
def sums_in_float32() -> Iterator[None]:
    """Have cuBLAS add the parts of a split product in float32, as the other kernels do."""
    settings = torch.backends.cuda.matmul
    before = settings.allow_bf16_reduced_precision_reduction
    settings.allow_bf16_reduced_precision_reduction = False
    yield
    settings.allow_bf16_reduced_precision_reduction = before


def operands(gpuperf: Gpuperf, shape: Shape) -> list[torch.Tensor]:
    m, n, k = shape
    return matrices(gpuperf, (m, k), (k, n), dtype=torch.bfloat16)


def tolerance_and_work(shape: Shape) -> dict[str, Any]:
    m, n, k = shape
    return {
        "rtol": BFLOAT16_RTOL,
        "atol": accumulation_error(k),
        "bytes": 2 * (m * k + k * n + m * n),
        "flops": 2 * m * n * k,
    }


def compare_with_cublas(
    gpuperf: Gpuperf, matmul: Callable[..., torch.Tensor], shape: Shape, *, at_most: float
) -> None:
    """Check, time and profile cuBLAS and a kernel, and demand at most `at_most` times the time of cuBLAS."""
    gpuperf.compare(
        {"cublas": torch.mm, "main": matmul},
        *operands(gpuperf, shape),
        expected=exact_product,
        limits=f"main / cublas <= {at_most}",
        **tolerance_and_work(shape),
    )


def skip_without_specialised_warps(gpuperf: Gpuperf) -> None:
    if (
        gpuperf.device.type == "cuda"
        and torch.cuda.get_device_capability(gpuperf.device) < FIRST_TO_SPECIALISE
    ):
        pytest.skip("Triton specialises warps from compute capability 10.0 on")


@pytest.mark.gpuperf(limits={"tensor_active": ">= 30"})
def test_small_k_tiled(gpuperf: Gpuperf) -> None:
    """Start a block for each tile, which fills its pipeline, drains it and stores, all for few steps."""
    compare_with_cublas(gpuperf, partial(matmul_triton, tile=SMALL_TILE), SMALL_K, at_most=1.7)


@pytest.mark.gpuperf(limits={"tensor_active": ">= 30"})
def test_small_k_persistent(gpuperf: Gpuperf) -> None:
    compare_with_cublas(gpuperf, partial(matmul_persistent, tile=SMALL_TILE), SMALL_K, at_most=1.5)


@pytest.mark.gpuperf(limits={"tensor_active": ">= 30"})
@pytest.mark.parametrize("specialise", [False, True], ids=["all_warps", "specialised"])
def test_small_k_tma(gpuperf: Gpuperf, specialise: bool) -> None:
    """Copy for a tile while the last one is stored, like CUTLASS' ping-pong schedule."""
    if specialise:
        skip_without_specialised_warps(gpuperf)
    tma = partial(matmul_tma, tile=SMALL_TILE, specialise=specialise)
    compare_with_cublas(gpuperf, tma, SMALL_K, at_most=1.25)


@pytest.mark.gpuperf(limits={"tensor_active": ">= 40"})
def test_large_k_tiled(gpuperf: Gpuperf) -> None:
    compare_with_cublas(gpuperf, partial(matmul_triton, tile=LARGE_TILE), LARGE_K, at_most=1.25)


@pytest.mark.gpuperf(limits={"tensor_active": ">= 40"})
@pytest.mark.parametrize("specialise", [False, True], ids=["all_warps", "specialised"])
def test_large_k_tma(gpuperf: Gpuperf, specialise: bool) -> None:
    """Share the largest tile between two groups of four warps, like CUTLASS' cooperative schedule."""
    if specialise:
        skip_without_specialised_warps(gpuperf)
    tma = partial(matmul_tma, tile=LARGE_TILE, specialise=specialise)
    compare_with_cublas(gpuperf, tma, LARGE_K, at_most=1.25)


@pytest.mark.gpuperf(limits={"waves": "<= 1", "sm_throughput": "<= 50"})
def test_small_mn_tiled(gpuperf: Gpuperf) -> None:
    """Eighteen tiles keep only eighteen SMs busy, which the next test improves."""
    gpuperf(
        matmul_triton,
        *operands(gpuperf, SMALL_MN),
        LARGE_TILE,
        expected=exact_product,
        **tolerance_and_work(SMALL_MN),
    )


@pytest.mark.gpuperf(limits={"tensor_active": ">= 20"})
def test_small_mn_stream_k(gpuperf: Gpuperf) -> None:
    compare_with_cublas(gpuperf, partial(matmul_stream_k, tile=LARGE_TILE), SMALL_MN, at_most=1.6)


@pytest.mark.gpuperf(limits={"memory_throughput": ">= 40"})
def test_few_rows(gpuperf: Gpuperf) -> None:
    """Each element of B serves only sixteen rows, as in decoding, so memory is the bound."""
    compare_with_cublas(gpuperf, partial(matmul_triton, tile=FLAT_TILE), FEW_ROWS, at_most=1.25)


@pytest.mark.parametrize("matmul", [matmul_persistent, matmul_stream_k])
def test_odd_shape(gpuperf: Gpuperf, matmul: Callable[..., torch.Tensor]) -> None:
    """No dimension is a multiple of the tile: every mask is needed, and rows are not aligned."""
    check(gpuperf, matmul, Shape(1000, 1031, 517))


def test_odd_shape_tma(gpuperf: Gpuperf) -> None:
    """Rows begin at multiples of 16 bytes, as TMA needs; the last tile of each dimension is cut off."""
    check(gpuperf, matmul_tma, Shape(1000, 1032, 520))


def check(gpuperf: Gpuperf, matmul: Callable[..., torch.Tensor], shape: Shape) -> None:
    a, b = operands(gpuperf, shape)
    gpuperf.check(
        matmul,
        a,
        b,
        SMALL_TILE,
        expected=exact_product,
        rtol=BFLOAT16_RTOL,
        atol=accumulation_error(shape.k),
    )
