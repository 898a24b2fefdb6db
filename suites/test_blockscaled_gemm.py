"""Matrix products of 8-bit and 4-bit floats with scales along K, in tiles of 128 and of 256 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from suites.kernels.block_scaled_gemm import TILES, matmul_block_scaled
from suites.kernels.microscaling import MXFP4, MXFP8, NVFP4, Format, exact_block_scaled, random_matrix
from suites.products import accumulation_error

if TYPE_CHECKING:
    from pytest_gpuperf import Gpuperf
    from suites.kernels.gemm import Tile

FLOAT16_RTOL = 2**-10
"""Twice the largest rounding error of float16, 2^-11 for its 11 significant bits."""
FIRST_WITH_NVFP4 = (10, 0)
"""First compute capability for nvfp4; Triton 3.6 cannot convert its scales for older ones."""

CHECKLIST = [
    "sm_throughput",
    "memory_throughput",
    "tensor_active",
    "stall.long_scoreboard",
    "stall.lg_throttle",
    "stall.barrier",
    "stall.mio_throttle",
    "stall.math_pipe_throttle",
    "l2_hit_rate",
    "bank_conflict_pct",
    "tma_instructions",
    "achieved_occupancy",
    "theoretical_occupancy",
    "occupancy_limiter",
]
"""Metrics to look at first, read with any preset; the baseline file has limits that a GPU can reach."""

counted = pytest.mark.gpuperf(
    kernels=r"block_scaled_kernel",
    metrics=CHECKLIST,
    # Tensor cores multiply with or without the format, and blocks in a row or column share their loads. The
    # rest depends on the GPU.
    limits={"tensor_active": ">= 5", "l2_hit_rate": ">= 50"},
)
tiles = pytest.mark.parametrize("tile", TILES, ids=str)


def operands(gpuperf: Gpuperf, form: Format, m: int, n: int, k: int) -> list[torch.Tensor]:
    """Return A, B, and the scales of each."""
    torch.manual_seed(0)
    a, a_scales = random_matrix(form, m, k, gpuperf.device)
    b, b_scales = random_matrix(form, n, k, gpuperf.device)
    return [a, b, a_scales, b_scales]


def absolute_error(form: Format, k: int) -> float:
    """Return the error of the sums: elements are larger than 1, and no scale is above 1.

    Converted elements and their products are exact in bfloat16 and float32.
    """
    return accumulation_error(k) * form.mean_square


def measure(gpuperf: Gpuperf, form: Format, tile: Tile, m: int, n: int, k: int) -> None:
    tensors = operands(gpuperf, form, m, n, k)
    gpuperf(
        matmul_block_scaled,
        *tensors,
        form,
        tile,
        expected=exact_block_scaled,
        rtol=FLOAT16_RTOL,
        atol=absolute_error(form, k),
        bytes=sum(tensor.nbytes for tensor in tensors) + 2 * m * n,
        flops=2 * m * n * k,
    )


@counted
@tiles
@pytest.mark.parametrize("mn", [2048, 8192])
@pytest.mark.parametrize("form", [MXFP8, MXFP4], ids=str)
def test_block_scaled(gpuperf: Gpuperf, form: Format, mn: int, tile: Tile) -> None:
    measure(gpuperf, form, tile, mn, mn, 1024)


@counted
@tiles
def test_nvfp4(gpuperf: Gpuperf, tile: Tile) -> None:
    if gpuperf.device.type == "cuda" and torch.cuda.get_device_capability(gpuperf.device) < FIRST_WITH_NVFP4:
        pytest.skip("nvfp4 takes compute capability 10.0")
    measure(gpuperf, NVFP4, tile, 8192, 8192, 1024)


@pytest.mark.parametrize("form", [MXFP8, MXFP4], ids=str)
def test_odd_shape(gpuperf: Gpuperf, form: Format) -> None:
    """No dimension is a multiple of the tile, and K only of the scales' group; TMA reads zeros beyond it."""
    m, n, k = 1000, 1031, 544
    gpuperf.check(
        matmul_block_scaled,
        *operands(gpuperf, form, m, n, k),
        form,
        TILES[0],
        expected=exact_block_scaled,
        rtol=FLOAT16_RTOL,
        atol=absolute_error(form, k),
    )
