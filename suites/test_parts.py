"""Fixtures for the single parts of `gpuperf`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from pytest_gpuperf import Gpuperf
    from pytest_gpuperf.plugin.facade import GpuTimer, GpuWarmUp, Ncu


@pytest.fixture
def x(gpuperf: Gpuperf) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(4096, 4096, device=gpuperf.device)


def test_warm_up(gpu_warmup: GpuWarmUp, x: torch.Tensor) -> None:
    assert gpu_warmup(torch.relu, x).steady


@pytest.mark.parametrize("mode", ["hot", "cold", "queued"])
def test_timer(gpu_timer: GpuTimer, x: torch.Tensor, mode: str) -> None:
    assert gpu_timer(torch.relu, x, bytes=2 * x.nbytes, mode=mode).mode == mode


def test_ncu(ncu: Ncu, x: torch.Tensor) -> None:
    """A softmax and a sum launch at least two kernels; each is kept, and one row combines them."""
    profile = ncu(lambda: torch.softmax(x, -1).sum())
    assert profile.unavailable or profile.combined["kernels"] == len(profile.kernels) >= 2
