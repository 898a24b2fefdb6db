"""The clock for pytest-benchmark on a real GPU."""

from __future__ import annotations

import pytest
import torch

from pytest_gpuperf.features.export.pytest_benchmark_timer import gpu_clock
from pytest_gpuperf.measure.timing.batch import HotBatch


def round_us(x: torch.Tensor, calls: int) -> float:
    """Return the microseconds per call of the fastest round."""
    rounds = []
    for _ in range(20):
        start = gpu_clock()
        for _ in range(calls):
            torch.square(x)
        rounds.append((gpu_clock() - start) / calls * 1e6)
    return min(rounds)


def graph_us(x: torch.Tensor) -> float:
    batch = HotBatch(lambda: torch.square(x), 100)
    return min(batch.run().time_us for _ in range(20))


def test_a_long_kernel_reads_as_in_a_graph() -> None:
    x = torch.randn(8192, 8192, device="cuda")
    assert round_us(x, 5) == pytest.approx(graph_us(x), rel=0.03)


def test_clock_reads_a_short_kernel_without_launch_gaps() -> None:
    # The gap between kernels of a stream is about as long as the kernel; gaps of the host are much longer.
    x = torch.randn(64, 64, device="cuda")
    assert round_us(x, 50) < graph_us(x) + 1.5


def test_clock_reads_few_microseconds_without_gpu_work() -> None:
    start = gpu_clock()
    assert 0 < gpu_clock() - start < 10e-6
