"""What suites of matrix products share: random matrices, the exact product, and how far off one may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from pytest_gpuperf import Gpuperf

CUBLAS = r"nvjet|gemm|cutlass|xmma|splitK"
"""What cuBLAS calls its kernels, from Hopper's back to the oldest, and the one that adds up parts."""

BFLOAT16_RTOL = 2**-7
"""Rounding to the 8 significant bits of bfloat16 is off by up to 2^-8; twice that."""


def matrices(gpuperf: Gpuperf, *shapes: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    """Normally distributed, the same every time."""
    torch.manual_seed(0)
    return [torch.randn(shape, device=gpuperf.device, dtype=dtype) for shape in shapes]


def exact_product(a: torch.Tensor, b: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    """In float64, whatever else the kernel takes."""
    return a.double() @ b.double()


def accumulation_error(k: int) -> float:
    """Absolute error of a sum of k products of normally distributed numbers, accumulated in float32.

    Each of the k additions can cut off up to 2^-23 of the running sum (tensor cores truncate instead of
    rounding), and that is of the order of sqrt(k). One product left out would be an error of the order of 1.
    """
    return float(k**1.5 * 2**-23)
