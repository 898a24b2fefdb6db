"""Times of one rank: on a GPU whose launches take known times, and by the records of its kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ranks import profiler_capture, timing
from pytest_gpuperf.features.ranks.profiler_capture import MARK, rank_time
from pytest_gpuperf.features.ranks.single_rank_call import RankedCall
from pytest_gpuperf.records.ranks import RankTime
from simulated_gpu import SimulatedGpu
from trace_builders import TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.features.ranks.messages import TimesOfRank

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@dataclass(frozen=True)
class OneRank(RankedCall):
    """A call on the only rank of a simulated GPU."""

    gpu: SimulatedGpu

    def barrier(self) -> None:
        """Launch a kernel."""
        self.gpu.launch(3.0, "barrier")

    def meet(self) -> None:
        """Wait for the GPU."""
        self.gpu.synchronize()

    def largest(self, *numbers: float) -> list[float]:
        """Return the numbers."""
        return list(numbers)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimulatedGpu:
    """Simulate a GPU."""
    monkeypatch.setattr(timing, "_conditions", lambda _: None)
    monkeypatch.setattr(profiler_capture, "recorded_time", lambda _, us: RankTime(time_us=us, gpu_busy_us=1))
    return SimulatedGpu(monkeypatch)


def time_of(gpu: SimulatedGpu, fn: Callable[[], object]) -> TimesOfRank:
    call = OneRank(
        fn=fn,
        args=(),
        kwargs={},
        make_expected=lambda: None,
        rank=0,
        world=1,
        device=torch.device("cuda", 0),
        doing=lambda _: None,
        token=torch.zeros(1),
        gpu=gpu,
    )
    return timing.time_call(call, 0.05)


@pytest.mark.parametrize("time_us", [4.0, 400.0, 40_000.0])
def test_time_is_that_of_the_call_without_barrier_and_launch(gpu: SimulatedGpu, time_us: float) -> None:
    gpu.host_us = 20.0
    found = time_of(gpu, gpu.kernel(time_us))
    assert {round(us, 6) for block in found.blocks for us in block} == {time_us}
    assert (found.late, found.recorded) == (False, RankTime(time_us=time_us, gpu_busy_us=1.0))


@pytest.mark.parametrize(("time_us", "calls"), [(4.0, 50), (500.0, 10), (40_000.0, 5)])
def test_blocks_have_about_5_ms(gpu: SimulatedGpu, time_us: float, calls: int) -> None:
    found = time_of(gpu, gpu.kernel(time_us))
    assert {len(block) for block in found.blocks} == {calls}
    assert timing.LEAST_BLOCKS <= len(found.blocks) <= timing.MOST_BLOCKS


def test_a_call_that_waits_for_the_gpu_is_late(gpu: SimulatedGpu) -> None:
    def waits() -> None:
        gpu.launch(10.0)
        gpu.synchronize()
        gpu.now += 5.0

    assert time_of(gpu, waits).late


def recorded() -> TraceBuilder:
    """Record three calls of different lengths, with barriers before them that do not count."""
    trace = TraceBuilder()
    for at, length in enumerate((100.0, 300.0, 200.0)):
        begin = 1000.0 * at
        trace.kernel(NCCL, 5000 + begin, 900.0 - length, launched=begin)
        trace.annotation(MARK, begin + 100, 100.0)
        trace.kernel("ampere_sgemm_128x128_nn", 6000 + begin, length, launched=begin + 110)
        trace.kernel(NCCL, 6050 + begin, length, launched=begin + 120, stream=20)
    return trace


def test_communication_of_the_median_call() -> None:
    found = rank_time(recorded().read(), 260.0)
    assert found == RankTime(time_us=260.0, gpu_busy_us=250.0, communication_us=200.0, exposed_us=50.0)


def test_a_call_without_kernels_is_refused() -> None:
    trace = TraceBuilder()
    trace.kernel(NCCL, 100.0, 10.0)
    trace.annotation(MARK, 200.0, 100.0)
    with pytest.raises(GpuperfError, match="runs nothing on its GPU"):
        rank_time(trace.read(), 1.0)
