"""Ordinary code on a GPU: persisting memory, other streams and devices, and little memory."""

from __future__ import annotations

import ctypes
import gc
from typing import TYPE_CHECKING

import pytest
import torch

from cuda_header import cuda_numbers
from exploits.on_caches import keep_in_l2
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device import driver
from pytest_gpuperf.measure.device.conditions import Nvml
from pytest_gpuperf.measure.device.driver import CU_LIMIT_PERSISTING_L2_CACHE_SIZE
from pytest_gpuperf.measure.device.gpu_identity import gpu_info
from pytest_gpuperf.measure.timing.timer import Timer

if TYPE_CHECKING:
    from collections.abc import Iterator

FETCH_GRANULARITY = cuda_numbers()["CU_LIMIT_MAX_L2_FETCH_GRANULARITY"]


@pytest.fixture
def timer() -> Timer:
    gpu = gpu_info()
    return Timer(gpu.l2_bytes, 0.2, Nvml(gpu.uuid).conditions)


def limit(which: int) -> int:
    size = ctypes.c_size_t()
    driver.call("cuCtxGetLimit", ctypes.byref(size), which)
    return size.value


@pytest.fixture
def _nothing_persists() -> Iterator[None]:
    torch.zeros(1, device="cuda")
    yield
    driver.call("cuCtxSetLimit", CU_LIMIT_PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(0))
    driver.call("cuCtxResetPersistingL2Cache")


@pytest.mark.usefixtures("_nothing_persists")
@pytest.mark.parametrize("size", [1 << 20, 4 << 20], ids=["by CUPTI", "by events"])
def test_persisting_window_does_not_survive_a_cold_flush(timer: Timer, size: int) -> None:
    x = torch.randn(size, device="cuda")

    def cold_us() -> float:
        # Its source may be events once and CUPTI then.
        timing = timer.time(lambda: torch.square(x), mode="cold")
        return timing.us_by("events") or timing.time_us

    cold_us()  # the first time of a process is longer
    plain = cold_us()
    keep_in_l2(x, torch.cuda.current_stream())
    before = limit(FETCH_GRANULARITY), limit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
    assert cold_us() > 0.9 * plain
    assert (limit(FETCH_GRANULARITY), limit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE)) == before


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_tensors_on_another_device_are_timed(timer: Timer, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the other device had captured first in this process.
    monkeypatch.setattr(torch.cuda.graph, "default_capture_stream", torch.cuda.Stream(1))  # type: ignore[no-untyped-call]
    x = torch.randn(1 << 26, device="cuda:1")
    with torch.cuda.device(1):
        own = timer.time(lambda: x * 2, mode="kernels")
    other = timer.time(lambda: x * 2, mode="auto")
    assert (other.mode, other.blocks_mhz) == ("kernels", ())
    assert other.time_us == pytest.approx(own.time_us, rel=0.05)


def test_work_on_the_legacy_stream_is_in_the_time(timer: Timer) -> None:
    """A quarter of it: torch captures on a stream of its own, and the fill is not in the graph."""
    x = torch.randn(1 << 26, device="cuda")
    count = ctypes.c_size_t(x.numel() // 2)

    def fn() -> torch.Tensor:
        y = x * 2
        driver.call("cuMemsetD32Async", ctypes.c_uint64(y.data_ptr()), 0, count, None)
        return y

    timing = timer.time(fn, mode="auto")
    assert timing.mode == "kernels"
    assert "a capture sees 1 of them" in timing.not_captured
    assert timing.time_us == pytest.approx(timer.time(fn, mode="kernels").time_us, rel=0.05)


def test_graph_needs_the_memory_of_one_output(timer: Timer) -> None:
    gc.collect()
    torch.cuda.empty_cache()
    x = torch.zeros(int(0.4 * torch.cuda.mem_get_info()[0]) // 4, device="cuda")
    timing = timer.time(lambda: x + 1, mode="auto")
    assert timing.mode == "hot"
    assert "a call next to the graph needs" in timing.not_compared


def test_too_little_memory_for_a_graph_is_told(timer: Timer) -> None:
    total = torch.cuda.mem_get_info()[1]

    def fn() -> torch.Tensor:
        size = total if torch.cuda.is_current_stream_capturing() else 1024
        return torch.zeros(size, dtype=torch.int8, device="cuda")

    with pytest.raises(GpuperfError, match=r"out of memory: [\d.]+ GiB more is needed"):
        timer.time(fn, mode="auto")
    # The next capture is not disturbed.
    assert timer.time(lambda: torch.zeros(1024, device="cuda"), mode="auto").mode == "hot"


NOT_CACHED = """
import torch

def test_square(gpuperf):
    x = torch.randn(2048, 2048, device=gpuperf.device)
    timing = gpuperf(torch.square, x, expected=lambda x: x.double().square()).timing
    assert timing.mode == "kernels"
    assert "caching allocator" in timing.not_captured
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"), ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync")],
)
def test_memory_that_is_not_cached_leaves_mode_kernels(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    pytester.makepyfile(NOT_CACHED)
    result = pytester.runpytest_subprocess("--gpuperf", "--gpuperf-counters=off", timeout=240)
    result.assert_outcomes(passed=1)
