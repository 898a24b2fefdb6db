"""The suites' CUDA graph gives what the callable gives."""

from __future__ import annotations

import pytest
import torch

from suites.kernels.graphed import Graphed

pytestmark = pytest.mark.gpu


def double_plus_one(x: torch.Tensor) -> torch.Tensor:
    return 2 * x + 1


def test_a_graph_follows_what_its_argument_holds() -> None:
    x = torch.arange(8.0, device="cuda")
    graphed = Graphed(double_plus_one)
    assert torch.equal(graphed(x), double_plus_one(x))
    x += 3
    assert torch.equal(graphed(x), double_plus_one(x))


def test_a_graph_can_be_captured_into_another() -> None:
    x = torch.arange(8.0, device="cuda")
    graphed = Graphed(double_plus_one)
    graphed(x)
    outer = torch.cuda.CUDAGraph()
    with torch.cuda.graph(outer):
        found = graphed(x)
    outer.replay()
    assert torch.equal(found, double_plus_one(x))
