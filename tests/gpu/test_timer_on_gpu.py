"""The timer on a real GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from pytest_gpuperf.device.conditions import Nvml
from pytest_gpuperf.device.gpu import gpu_info
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.timing.batch import HotBatch, NotCapturableError, capture
from pytest_gpuperf.timing.timer import Timer

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]


@pytest.fixture
def timer() -> Timer:
    gpu = gpu_info()
    return Timer(gpu.l2_bytes, 0.1, Nvml(gpu.uuid).conditions)


@pytest.fixture
def square() -> Callable[[], torch.Tensor]:
    x = torch.randn(2048, 2048, device="cuda")
    return lambda: torch.square(x)


def profiled_us(fn: Callable[[], object]) -> float:
    """Median kernel duration as CUPTI's activity records have it."""
    from torch.profiler import ProfilerActivity, profile

    for _ in range(10):
        fn()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(50):
            fn()
        torch.cuda.synchronize()
    durations = sorted(event.device_time for event in profiler.events() if event.device_time > 0)
    return float(durations[len(durations) // 2])


def test_hot_time_is_near_the_kernels_own_duration(timer: Timer, square: Callable[[], torch.Tensor]) -> None:
    timing = timer.time(square, mode="hot")
    # What a graph adds is the gap between two nodes.
    assert abs(timing.time_us - profiled_us(square)) < 0.6


def test_cold_is_slower_than_hot_where_the_input_fits_the_l2(
    timer: Timer, square: Callable[[], torch.Tensor]
) -> None:
    hot, cold = timer.time(square, mode="hot"), timer.time(square, mode="cold")
    assert cold.l2_flushed
    assert not hot.l2_flushed
    assert cold.time_us > 1.3 * hot.time_us


def test_a_kernel_too_short_to_be_timed_cold_has_a_time_above_0_or_none(timer: Timer) -> None:
    x = torch.ones(1, device="cuda")
    try:
        timing = timer.time(lambda: x.add_(1), mode="cold")
    except GpuperfError as error:
        assert "mode='hot'" in str(error)  # noqa: PT017
    else:
        assert timing.time_us > 0


def test_work_on_a_stream_that_is_joined_is_in_the_time(
    timer: Timer, square: Callable[[], torch.Tensor]
) -> None:
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def beside() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            square()
        torch.cuda.current_stream().wait_stream(side)

    timing = timer.time(beside, mode="hot")
    assert timing.time_us > 0.8 * timer.time(square, mode="hot").time_us


def test_a_callable_that_synchronises_is_queued_and_says_why(timer: Timer) -> None:
    x = torch.randn(1024, 1024, device="cuda")
    timing = timer.time(lambda: torch.square(x).sum().item(), mode="auto")
    assert timing.mode == "queued"
    assert "captur" in timing.not_captured


def test_a_failed_capture_leaves_later_captures_whole(
    timer: Timer, square: Callable[[], torch.Tensor]
) -> None:
    x = torch.randn(1024, 1024, device="cuda")
    with pytest.raises(NotCapturableError):
        capture(lambda: x.sum().item(), 2)
    assert timer.time(square, mode="auto").mode == "hot"


def test_random_numbers_are_there_after_a_failed_capture() -> None:
    x = torch.randn(1024, 1024, device="cuda")
    with pytest.raises(NotCapturableError, match="captur"):
        capture(lambda: x.sum().item(), 2)
    assert torch.randn(10, device="cuda").isfinite().all()


def test_cold_refuses_what_cannot_be_captured(timer: Timer) -> None:
    x = torch.randn(1024, 1024, device="cuda")
    with pytest.raises(GpuperfError, match="mode='queued'"):
        timer.time(lambda: x.sum().item(), mode="cold")


@pytest.mark.parametrize("mode", ["auto", "hot", "cold", "queued"])
def test_a_callable_that_launches_nothing_is_refused(timer: Timer, mode: str) -> None:
    with pytest.raises(GpuperfError, match="launched nothing on the GPU"):
        timer.time(lambda: torch.ones(3).sum(), mode=mode)


def test_what_a_callable_raises_comes_out(timer: Timer) -> None:
    def broken() -> None:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        timer.time(broken, mode="auto")


def test_backward_is_captured(timer: Timer) -> None:
    weight = torch.randn(256, 256, device="cuda", requires_grad=True)
    assert timer.time(lambda: (weight @ weight).sum().backward(), mode="auto").mode == "hot"  # type: ignore[no-untyped-call]


def test_conditions_are_recorded(timer: Timer, square: Callable[[], torch.Tensor]) -> None:
    conditions = timer.time(square, mode="hot").conditions
    assert conditions is not None
    assert conditions.sm_clock_mhz > 0
    assert conditions.power_w > 0


def test_blocks_of_one_graph_agree(square: Callable[[], torch.Tensor]) -> None:
    batch = HotBatch(square, 500)
    for _ in range(20):
        batch.run()
    first, second = batch.run(), batch.run()
    assert abs(first - second) < 0.05 * first
