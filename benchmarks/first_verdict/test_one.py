"""One small test, which people run again and again while they write a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from pytest_gpuperf import Gpuperf


def test_square(gpuperf: Gpuperf) -> None:
    x = torch.randn(4096, 4096, device=gpuperf.device)
    gpuperf(lambda x: x * x, x, expected=torch.square)
