"""Square of a float32 matrix of 4096 rows over N columns, five ways.

Each element is read and written once, so memory is the bound, and the figure is GB/s, as `perf_report` of
Triton plots it.
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
    # No multiple of 16: rows do not all begin where 16 bytes begin, and no load of theirs is wide.
    781,
    1024,
    # Past a power of two: half of the lanes have nothing to do where a block is as long as a row.
    4224,
    # 256 MiB a call fit in no L2, so memory has to be busy; smaller ones may end before it is. One float a
    # thread, as the CUDA kernel reads them, is enough for half of what memory can do; the files below
    # baselines/ ask more of the others.
    pytest.param(8192, marks=pytest.mark.gpuperf(limits={"memory_throughput": ">= 50"})),
]

# Nothing in a square waits for another warp.
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
    """A block as long as a row: the next power of two."""
    x = matrix(gpuperf, n)
    gpuperf(square_triton, x, expected=exact_square, bytes=2 * x.nbytes)


@pytest.mark.gpuperf(kernels=r"square_blocks_kernel")
def test_square_fixed_block(gpuperf: Gpuperf, n: int) -> None:
    """Blocks of 1024, as many as a row takes."""
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
