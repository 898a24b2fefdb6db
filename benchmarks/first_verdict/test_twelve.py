"""Twelve small tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf import Gpuperf

OPERATORS = (
    torch.sin,
    torch.cos,
    torch.exp,
    torch.tanh,
    torch.abs,
    torch.neg,
    torch.floor,
    torch.sqrt,
    torch.log,
    torch.erf,
    torch.square,
    torch.sigmoid,
)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.__name__)
def test_operator(gpuperf: Gpuperf, operator: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.rand(2048, 2048, device=gpuperf.device)
    gpuperf(operator, x, expected=operator)
