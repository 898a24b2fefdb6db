"""Kernels to time, from 1 µs to some 200 µs, as their users call them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[], Any]


def square(size: int) -> Call:
    """Return a square of float32."""
    return partial(torch.square, torch.randn(size, size, device="cuda"))


def matmul(size: int) -> Call:
    """Return a product of square matrices of bfloat16."""
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return partial(torch.mm, a, b)


def softmax(size: int) -> Call:
    """Return a softmax of the rows of a square matrix of float32."""
    return partial(torch.softmax, torch.randn(size, size, device="cuda"), -1)


KERNELS: dict[str, Callable[[], Call]] = {
    **{f"square {size}²": partial(square, size) for size in (64, 256, 1024, 2048, 4096, 8192)},
    **{f"matmul bf16 {size}": partial(matmul, size) for size in (512, 1024, 2048, 4096)},
    **{f"softmax {size}²": partial(softmax, size) for size in (1024, 8192)},
}
"""Makers of callables by name; each creates its inputs."""
