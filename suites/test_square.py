"""Square of a float32 matrix of 4096 rows and N columns, in five ways.

Each element is read and written once, so memory is the bound, and the rate in GB/s is compared, as in
Triton's `perf_report`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from suites.kernels.square import square_compiled, square_cuda, square_fixed_block, square_triton

if TYPE_CHECKING:
    from pytest_gpuperf import Gpuperf

ROWS = 4096
COLUMNS = [
    256,
    # Not a multiple of 16: not every row starts at a multiple of 16 bytes, so loads are single elements.
    781,
    1024,
    # Above a power of two: nearly half the lanes of a row-long block are idle.
    4224,
    # 256 MiB a call exceed every L2, so memory must be busy; smaller calls may end before it is. The CUDA
    # kernel reaches half of the peak with one float a thread; the files in baselines/ ask more of the others.
    pytest.param(8192, marks=pytest.mark.gpuperf(limits={"memory_throughput": ">= 50"})),
]

# No thread of a square waits for another warp.
pytestmark = [
    pytest.mark.parametrize("n", COLUMNS),
    pytest.mark.gpuperf(limits={"stall.barrier": "<= 25"}),
]


def matrix(gpuperf: Gpuperf, n: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn((ROWS, n), device=gpuperf.device)


def exact_square(x: torch.Tensor) -> torch.Tensor:
    return x.double().square()


@pytest.mark.gpuperf(kernels=r"elementwise_kernel")
def test_square_torch(gpuperf: Gpuperf, n: int) -> None:
    x = matrix(gpuperf, n)
    gpuperf(torch.square, x, expected=exact_square, bytes=2 * x.nbytes)


@pytest.mark.gpuperf(kernels=r"square_kernel")
def test_square_triton(gpuperf: Gpuperf, n: int) -> None:
    """Use a block as long as a row: the next power of two."""
    x = matrix(gpuperf, n)
    gpuperf(square_triton, x, expected=exact_square, bytes=2 * x.nbytes)


@pytest.mark.gpuperf(kernels=r"square_blocks_kernel")
def test_square_fixed_block(gpuperf: Gpuperf, n: int) -> None:
    """Use blocks of 1024, as many as a row needs."""
    x = matrix(gpuperf, n)
    gpuperf(square_fixed_block, x, expected=exact_square, bytes=2 * x.nbytes)


@pytest.mark.gpuperf(kernels=r"triton_.*(pow|mul|square)")
def test_square_compiled(gpuperf: Gpuperf, n: int) -> None:
    x = matrix(gpuperf, n)
    gpuperf(square_compiled, x, expected=exact_square, bytes=2 * x.nbytes)


@pytest.mark.gpuperf(kernels=r"square_matrix_kernel")
def test_square_cuda(gpuperf: Gpuperf, n: int) -> None:
    x = matrix(gpuperf, n)
    gpuperf(square_cuda, x, expected=exact_square, bytes=2 * x.nbytes)
