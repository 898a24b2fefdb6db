"""Shared parts of the suites of matrix products: random matrices, the exact product, tolerances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from pytest_gpuperf import Gpuperf

CUBLAS = r"nvjet|gemm|cutlass|xmma|splitK"
"""Names of cuBLAS kernels, from Hopper's to the oldest, and of the one that adds parts."""

BFLOAT16_RTOL = 2**-7
"""Twice the largest rounding error of bfloat16, 2^-8 for its 8 significant bits."""


def matrices(gpuperf: Gpuperf, *shapes: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    """Return normally distributed matrices, the same each time."""
    torch.manual_seed(0)
    return [torch.randn(shape, device=gpuperf.device, dtype=dtype) for shape in shapes]


def exact_product(a: torch.Tensor, b: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    """Return the product in float64; ignore the kernel's other arguments."""
    return a.double() @ b.double()


def accumulation_error(k: int) -> float:
    """Return the absolute error of a sum of k products of normally distributed numbers in float32.

    Each of the k additions can cut off up to 2^-23 of the running sum (tensor cores truncate instead of
    rounding), which is of the order of sqrt(k). A missing product would be an error of the order of 1.
    """
    return float(k**1.5 * 2**-23)
