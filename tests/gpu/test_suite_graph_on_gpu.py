"""The CUDA graph of the suites gives the result of the callable without host delays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pytest_gpuperf.features.explain.diagnosis import diagnose_call
from pytest_gpuperf.features.trace.capture import capture
from suites.kernels.graphed import Graphed

if TYPE_CHECKING:
    from pathlib import Path


def double_plus_one(x: torch.Tensor) -> torch.Tensor:
    return 2 * x + 1


def test_graph_follows_its_argument_values() -> None:
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


def test_short_kernels_wait_for_the_host_outside_graphs(tmp_path: Path) -> None:
    x = torch.ones(8, device="cuda")

    def many() -> None:
        for _ in range(50):
            x.add_(1)

    eager = capture(many, tmp_path / "eager.json.gz")
    graph = capture(Graphed(many), tmp_path / "graph.json.gz")
    assert (eager.launches, graph.launches) == (50, 50)
    assert eager.values["gpu_busy"] < graph.values["gpu_busy"]
    (found,) = diagnose_call(eager)
    assert found.code == "launch-bound"
    assert "CUDA graph" in found.next_step
    assert all("no longer the host's" in left.next_step for left in diagnose_call(graph))
