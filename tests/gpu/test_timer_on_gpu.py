"""The timer on a real GPU."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device.conditions import Nvml
from pytest_gpuperf.measure.device.gpu_identity import gpu_info
from pytest_gpuperf.measure.timing.graph import NotCapturableError, capture
from pytest_gpuperf.measure.timing.timer import Timer

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def timer() -> Timer:
    gpu = gpu_info()
    return Timer(gpu.l2_bytes, 0.1, Nvml(gpu.uuid).conditions)


@pytest.fixture
def square() -> Callable[[], torch.Tensor]:
    x = torch.randn(2048, 2048, device="cuda")
    return lambda: torch.square(x)


def kernel_us(fn: Callable[[], object]) -> float:
    """Return the median kernel duration from torch.profiler."""
    from torch.profiler import ProfilerActivity, profile

    for _ in range(10):
        fn()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(50):
            fn()
        torch.cuda.synchronize()
    durations = sorted(event.device_time for event in profiler.events() if event.device_time > 0)
    return float(durations[len(durations) // 2])


@pytest.mark.parametrize("mode", ["hot", "kernels"])
@pytest.mark.parametrize("size", [64, 1024, 2048, 8192])
def test_time_is_the_kernels_own_duration(timer: Timer, size: int, mode: str) -> None:
    x = torch.randn(size, size, device="cuda")
    timing = timer.time(lambda: torch.square(x), mode=mode)
    true_us = kernel_us(lambda: torch.square(x))
    assert abs(timing.time_us - true_us) < max(0.1, 0.02 * true_us)


def test_cupti_times_short_kernels_and_events_long_ones(timer: Timer) -> None:
    x = torch.randn(64, 64, device="cuda")
    short = timer.time(lambda: torch.square(x), mode="hot")
    assert short.source == "cupti"
    assert short.time_us == pytest.approx(short.us_by("cupti"), rel=1e-3)
    y = torch.randn(8192, 8192, device="cuda")
    assert timer.time(lambda: torch.square(y), mode="hot").source == "events"


def test_ended_profiler_does_not_change_later_times(timer: Timer) -> None:
    x = torch.randn(64, 64, device="cuda")
    before = timer.time(lambda: torch.square(x), mode="hot").us_by("events")
    kernel_us(lambda: torch.square(x))
    assert timer.time(lambda: torch.square(x), mode="hot").us_by("events") == pytest.approx(before, rel=0.03)


ENDING = """
import sys
import torch
from pytest_gpuperf.measure.cupti.activity import recorded
from pytest_gpuperf.measure.cupti.libcupti import detach
x = torch.randn(64, 64, device="cuda")
for what in sys.argv[1]:
    if what == "r":
        with recorded() as activities:
            torch.square(x)
        assert len(activities) == 1, activities
    elif what == "p":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            torch.square(x)
        assert any("elementwise" in event.name for event in profiler.events())
    else:
        detach()
"""


@pytest.mark.parametrize("order", ["p", "rp", "prp", "pd", "rpd", "pdpd", "rprp"])
def test_a_profiled_process_ends(order: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDING, order], timeout=60, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_host_time_holds_the_launch(timer: Timer) -> None:
    x = torch.randn(64, 64, device="cuda")
    host, hot = (timer.time(lambda: torch.square(x), mode=mode) for mode in ("host", "hot"))
    assert host.source == "host"
    assert host.time_us > 2 * hot.time_us


def test_copy_is_independent_of_sm_clock_arithmetic_is_not() -> None:
    gpu = gpu_info()
    timer = Timer(gpu.l2_bytes, 1.0, Nvml(gpu.uuid).conditions)
    x = torch.randn(8192, 8192, device="cuda")
    copy = timer.time(lambda: torch.square(x), mode="hot").clock_model
    weight = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    product = timer.time(lambda: weight @ weight, mode="hot").clock_model
    if copy is None or product is None:
        pytest.skip("the clocks of this GPU are locked")
    assert copy.sm_clock_share < 0.3
    assert product.sm_clock_share > 0.7


def test_cold_is_slower_than_hot_within_l2(timer: Timer, square: Callable[[], torch.Tensor]) -> None:
    hot, cold = timer.time(square, mode="hot"), timer.time(square, mode="cold")
    assert cold.time_us > 1.3 * hot.time_us


def test_work_on_a_joined_stream_counts(timer: Timer, square: Callable[[], torch.Tensor]) -> None:
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def beside() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            square()
        torch.cuda.current_stream().wait_stream(side)

    timing = timer.time(beside, mode="hot")
    assert timing.time_us > 0.8 * timer.time(square, mode="hot").time_us


def test_a_callable_that_synchronises_is_timed_by_its_kernels(timer: Timer) -> None:
    x = torch.randn(1024, 1024, device="cuda")
    timing = timer.time(lambda: torch.square(x).sum().item(), mode="auto")
    assert (timing.mode, timing.source) == ("kernels", "cupti")
    assert timing.not_captured == "it waits for the GPU"
    single = timing.single_call
    assert single is not None
    assert [stream.current for stream in single.streams] == [True]
    assert single.kernels_us == pytest.approx(timing.time_us)
    assert (single.host_us or 0) > timing.time_us
    assert single.host_copies_us > 0


@pytest.mark.parametrize("mode", ["kernels", "auto"])
@pytest.mark.parametrize("kind", ["pageable", "pinned", "on the GPU"])
def test_copies_have_the_rate_of_their_bytes(timer: Timer, kind: str, mode: str) -> None:
    x = torch.randn(4096, 4096, device="cuda")
    to = torch.empty_like(x) if kind == "on the GPU" else x.cpu()
    to = to.pin_memory() if kind == "pinned" else to
    timing = timer.time(lambda: to.copy_(x, non_blocking=kind == "pinned"), mode=mode)
    assert timing.gb_per_s == pytest.approx(x.nbytes / timing.time_us / 1e3)
    assert timing.dram_share is None


def test_kernels_time_leaves_out_the_code_that_cupti_adds(timer: Timer) -> None:
    # One short block for each of 8192 rows: CUPTI's concurrent records are 2 % longer.
    x = torch.randn(8192, 8192, device="cuda")
    kernels, hot = (timer.time(lambda: torch.softmax(x, -1), mode=mode) for mode in ("kernels", "hot"))
    assert kernels.time_us == pytest.approx(hot.time_us, rel=0.012)


def test_callable_on_another_stream_is_timed_there(timer: Timer) -> None:
    x = torch.randn(4096, 4096, device="cuda")
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def beside() -> torch.Tensor:
        with torch.cuda.stream(side):
            return torch.square(x)

    timing = timer.time(beside, mode="auto")
    assert timing.mode == "kernels"
    assert timing.single_call is not None
    assert [stream.current for stream in timing.single_call.streams] == [False]
    assert timing.time_us == pytest.approx(timer.time(lambda: torch.square(x), mode="hot").time_us, rel=0.05)


def test_running_profiler_leaves_the_host_time_of_a_call_that_waits(timer: Timer) -> None:
    from torch.profiler import ProfilerActivity, profile

    x = torch.randn(1024, 1024, device="cuda")
    with profile(activities=[ProfilerActivity.CUDA]):
        timing = timer.time(lambda: torch.square(x).sum().item(), mode="auto")
    assert timing.only_host
    assert "torch.profiler" in timing.not_recorded


def test_queued_refuses_a_call_that_waits(timer: Timer) -> None:
    x = torch.randn(1024, 1024, device="cuda")
    with pytest.raises(GpuperfError, match="mode='kernels'"):
        timer.time(lambda: x.sum().item(), mode="queued")


def test_a_failed_capture_leaves_stream_random_numbers_and_later_captures(
    timer: Timer, square: Callable[[], torch.Tensor]
) -> None:
    x = torch.randn(1024, 1024, device="cuda")
    before = torch.cuda.current_stream()
    with pytest.raises(NotCapturableError, match="captur"):
        capture(lambda: x.sum().item())
    assert torch.cuda.current_stream() == before
    assert torch.randn(10, device="cuda").isfinite().all()
    assert timer.time(square, mode="auto").mode == "hot"


@pytest.mark.parametrize("mode", ["auto", "hot", "cold", "queued", "kernels", "host"])
def test_a_callable_that_launches_nothing_is_refused(timer: Timer, mode: str) -> None:
    with pytest.raises(GpuperfError, match="nothing on the "):
        timer.time(lambda: torch.ones(3).sum(), mode=mode)


TWICE = """
import torch
from pytest_gpuperf.measure.timing.timer import Timer
timer = Timer(torch.cuda.get_device_properties(0).L2_cache_size, 0.1, lambda: None)
x = torch.randint(1 << 30, (1 << 20,), device="cuda")
for _ in range(2):
    print(timer.time(x.sort, mode="hot").time_us)
"""


def test_first_timing_of_a_process_agrees_with_a_later_one() -> None:
    """Without the graphs that nobody times, `torch.sort` takes 157.5 and then 165.1 µs."""
    done = subprocess.run(
        [sys.executable, "-c", TWICE], timeout=60, capture_output=True, text=True, check=True
    )
    first, later = map(float, done.stdout.split())
    assert first == pytest.approx(later, rel=0.01)
