"""Counters from CUPTI in the process: launches, values and names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from fake_cupti import PASSES, FakeCupti, activity, install_on_a_gpu, recording
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters import cupti_counters
from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters, launch_facts
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.records import GpuInfo, Profile
from pytest_gpuperf.records.call import Call, Selection

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.measure.cupti.activity import Activity

H200 = GpuInfo(name="NVIDIA H200", slug="nvidia-h200", compute_capability="9.0", multiprocessors=132)
SQUARE = activity("square_kernel", 7)
SUM = activity("void at::native::reduce_kernel<512, 1, float>(float)", 8, grid=(64, 1, 1))
METRICS = ("duration_us", "achieved_occupancy", "grid_size", "theoretical_occupancy")
COUNTED = "sm__warps_active.avg.pct_of_peak_sustained_active"
CALL = Call("test_k.py::test_k", "main", print)


def row(duration_ns: float, occupancy: float) -> dict[str, float]:
    return {"gpu__time_duration.sum": duration_ns, COUNTED: occupancy}


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeCupti]:
    """Let the fake CUPTI record these launches."""

    def put(cupti: FakeCupti, *launches: Activity) -> FakeCupti:
        install_on_a_gpu(monkeypatch, cupti)
        monkeypatch.setattr(cupti_counters, "cupti", lambda: cupti)
        monkeypatch.setattr(cupti_counters, "recorded", recording(*launches))
        monkeypatch.setattr(cupti_counters, "CleanFlush", lambda _: lambda: cupti.called.append("flush"))
        return cupti

    return put


@pytest.fixture
def two(install: Callable[..., FakeCupti]) -> FakeCupti:
    return install(FakeCupti(row(5000, 80), row(3000, 40)), SUM, SQUARE)


def lookup(regex: str | None = None, *metrics: str) -> Profile:
    counters = CuptiCounters(H200, "gh100")
    try:
        return counters.lookup(CALL, Selection(regex), metrics or METRICS)
    finally:
        counters.let_go()


def test_values_belong_to_kernels_in_the_order_of_their_launches(two: FakeCupti) -> None:
    square, sum_ = lookup().kernels
    assert (square.name, square.grid, square.metrics["duration_us"]) == ("square_kernel", (8192, 1, 1), 5.0)
    assert (sum_.name, sum_.grid, sum_.metrics["duration_us"]) == ("reduce_kernel", (64, 1, 1), 3.0)
    assert sum_.demangled == "void at::native::reduce_kernel<512, 1, float>(float)"


def test_profile_records_source_and_cache_control(two: FakeCupti) -> None:
    profile = lookup()
    assert (profile.source, profile.cache_control, profile.clock_control) == ("cupti", "all", "none")
    assert profile.chip == "gh100"
    assert profile.combined["achieved_occupancy"] == pytest.approx((80 * 5 + 40 * 3) / 8)
    assert profile.combined["theoretical_occupancy"] == 100


def test_each_pass_begins_with_a_flush_that_is_not_counted(two: FakeCupti) -> None:
    lookup()
    steps = [name for name in two.called if name in ("flush", "RangeProfilerStart", "RangeProfilerStop")]
    assert steps == ["flush", "RangeProfilerStart", "RangeProfilerStop"] * PASSES


def test_too_little_memory_for_a_flush_is_an_error(two: FakeCupti, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(cupti_counters, "CleanFlush", full)
    with pytest.raises(CuptiError, match="no memory left to flush the L2"):
        lookup()
    assert two.state == "away"


def test_a_graph_never_reaches_the_range_profiler(install: Callable[..., FakeCupti]) -> None:
    cupti = install(FakeCupti(row(5000, 80)), activity("square_kernel", 7, in_graph=True))
    with pytest.raises(CuptiError, match="launches a CUDA graph, whose kernels CUPTI counts as one"):
        lookup()
    with pytest.raises(GpuperfError, match="for the regex 'gemm'; these ran: square_kernel"):
        lookup("gemm")
    assert "RangeProfilerEnable" not in cupti.called
    assert cupti.state == "away"


def test_after_an_unexplained_error_cupti_reads_nothing_more(install: Callable[..., FakeCupti]) -> None:
    cupti = install(FakeCupti(row(5000, 80), refusals={"RangeProfilerDecodeData": 999}), SQUARE)
    counters = CuptiCounters(H200, "gh100", insists=False)
    first = counters.lookup(CALL, Selection(), METRICS)
    assert first.unavailable == "CUPTI's cuptiRangeProfilerDecodeData failed: 999"
    assert cupti.state == "away"
    cupti.refusals.clear()
    cupti.called.clear()
    later = counters.lookup(CALL, Selection("square", "first"), METRICS)
    assert later.unavailable == (
        "CUPTI reads nothing more in this process, because of an error: CUPTI's cuptiRangeProfilerDecodeData "
        "failed: 999"
    )
    assert (later.regex, later.launches, later.tolerated) == ("square", "first", True)
    assert cupti.called == []


def test_after_a_known_refusal_cupti_reads_the_next_call(install: Callable[..., FakeCupti]) -> None:
    cupti = install(FakeCupti(row(5000, 80), refusals={"RangeProfilerStart": 26}), SQUARE)
    counters = CuptiCounters(H200, "gh100", insists=False)
    assert (
        "another process holds the GPU's counters" in counters.lookup(CALL, Selection(), METRICS).unavailable
    )
    cupti.refusals.clear()
    assert counters.lookup(CALL, Selection(), METRICS).combined["kernels"] == 1


def test_raw_metric_without_a_value_is_refused(two: FakeCupti) -> None:
    assert lookup(None, COUNTED, "duration_us").combined[COUNTED] == pytest.approx(65)
    assert lookup(None, "launch__grid_size").kernels[0].metrics == {"launch__grid_size": 8192}
    with pytest.raises(GpuperfError, match=r"CUPTI has no value for the metric 'launch__uses_cdp'"):
        lookup(None, "launch__uses_cdp")


def test_facts_of_the_launch_need_no_counting(two: FakeCupti) -> None:
    assert lookup(None, "grid_size", "waves").kernels[1].metrics["grid_size"] == 64
    assert "RangeProfilerEnable" not in two.called


def test_call_that_launches_nothing_is_refused(install: Callable[..., FakeCupti]) -> None:
    install(FakeCupti())
    with pytest.raises(GpuperfError, match="launched no kernel to profile"):
        lookup()


def test_unknown_gpu_has_launch_facts_without_occupancy() -> None:
    facts = launch_facts(SQUARE, GpuInfo(name="", slug="", compute_capability="99.0", multiprocessors=1))
    assert facts["launch__block_size"] == 256
    assert "sm__maximum_warps_per_active_cycle_pct" not in facts
