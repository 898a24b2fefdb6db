"""Calls that are checked, and random inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.measure.correctness import check

if TYPE_CHECKING:
    from pytest_gpuperf.records import Correctness


def checked(fn: Any, *args: Any, expected: Any, **options: Any) -> Correctness:
    return check(fn, args, {}, expected=expected, **options)


def data(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator).mul(4).to(dtype)
