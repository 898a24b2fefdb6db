"""One large product of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from pytest_gpuperf import Gpuperf


def test_product(gpuperf: Gpuperf) -> None:
    a, b = (torch.randn(8192, 8192, device=gpuperf.device, dtype=torch.bfloat16) for _ in range(2))
    gpuperf(torch.matmul, a, b, expected=torch.matmul)
