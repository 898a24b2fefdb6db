"""Square of a float32 matrix, four ways. Each element is read and written once, so memory is the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from suites.kernels.square import square_compiled, square_cuda, square_triton

if TYPE_CHECKING:
    from pytest_gpuperf import Gpuperf

SHAPES = [
    pytest.param((1823, 781), id="1823x781"),
    pytest.param((1024, 1024), id="1024x1024"),
    # Just past a power of two: almost half of the Triton kernel's lanes have nothing to do.
    pytest.param((4097, 2049), id="4097x2049"),
    # 512 MiB a call fit in no L2, so memory has to be busy; smaller ones may end before it is. One float a
    # thread, as the CUDA kernel reads them, is enough for half of what memory can do; the files below
    # baselines/ ask more of the others.
    pytest.param(
        (8192, 8192), id="8192x8192", marks=pytest.mark.gpuperf(limits={"memory_throughput": ">= 50"})
    ),
]

# Nothing in a square waits for another warp.
pytestmark = [
    pytest.mark.parametrize("shape", SHAPES),
    pytest.mark.gpuperf(limits={"stall.barrier": "<= 25"}),
]


def matrix(gpuperf: Gpuperf, shape: tuple[int, int]) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(shape, device=gpuperf.device)


def exact_square(x: torch.Tensor) -> torch.Tensor:
    return x.double().square()


@pytest.mark.gpuperf(kernels=r"elementwise_kernel")
def test_square_torch(gpuperf: Gpuperf, shape: tuple[int, int]) -> None:
    x = matrix(gpuperf, shape)
    gpuperf(torch.square, x, expected=exact_square, bytes=2 * x.nbytes)


@pytest.mark.gpuperf(kernels=r"square_kernel")
def test_square_triton(gpuperf: Gpuperf, shape: tuple[int, int]) -> None:
    x = matrix(gpuperf, shape)
    gpuperf(square_triton, x, expected=exact_square, bytes=2 * x.nbytes)


@pytest.mark.gpuperf(kernels=r"triton_.*(pow|mul|square)")
def test_square_compiled(gpuperf: Gpuperf, shape: tuple[int, int]) -> None:
    x = matrix(gpuperf, shape)
    gpuperf(square_compiled, x, expected=exact_square, bytes=2 * x.nbytes)


@pytest.mark.gpuperf(kernels=r"square_matrix_kernel")
def test_square_cuda(gpuperf: Gpuperf, shape: tuple[int, int]) -> None:
    x = matrix(gpuperf, shape)
    gpuperf(square_cuda, x, expected=exact_square, bytes=2 * x.nbytes)
