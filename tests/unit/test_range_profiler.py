"""The range profiler, with a fake CUPTI that checks the order of calls."""

from __future__ import annotations

import pytest

from fake_cupti import NAN, PASSES, FakeCupti, install_on_a_gpu
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.cupti.range_profiler import RangeProfiler

TIME, WARPS = "gpu__time_duration.sum", "sm__warps_active.avg"
SQUARE, SUM = {TIME: 5000.0, WARPS: 40.0}, {TIME: 3000.0, WARPS: NAN}


@pytest.fixture(autouse=True)
def _a_context(monkeypatch: pytest.MonkeyPatch) -> None:
    install_on_a_gpu(monkeypatch, FakeCupti())


def test_each_kernel_has_a_row_without_missing_values() -> None:
    rows = RangeProfiler(FakeCupti(SQUARE, SUM)).read(lambda: None, (TIME, WARPS), 2)
    assert rows == [{TIME: 5000.0, WARPS: 40.0}, {TIME: 3000.0}]


def test_profiler_stays_enabled_between_reads() -> None:
    cupti = FakeCupti(SQUARE)
    profiler = RangeProfiler(cupti)
    for _ in range(3):
        profiler.read(lambda: None, (TIME,), 1)
    assert cupti.called.count("RangeProfilerEnable") == 1
    assert (cupti.state, cupti.finalised) == ("enabled", 0)


def test_other_metrics_enable_the_profiler_again() -> None:
    cupti = FakeCupti(SQUARE)
    profiler = RangeProfiler(cupti)
    for metrics in ((TIME,), (TIME, WARPS)):
        assert set(profiler.read(lambda: None, metrics, 1)[0]) == set(metrics)
    assert cupti.called.count("RangeProfilerEnable") == 2


def test_profiler_attaches_again_after_letting_go() -> None:
    cupti = FakeCupti(SQUARE)
    profiler = RangeProfiler(cupti)
    for finalised in (1, 2):
        profiler.read(lambda: None, (TIME,), 1)
        profiler.let_go()
        profiler.let_go()
        assert (cupti.state, cupti.finalised) == ("away", finalised)


def test_each_set_of_metrics_is_configured_once() -> None:
    cupti = FakeCupti(SQUARE)
    profiler = RangeProfiler(cupti)
    for metrics in ((TIME,), (TIME, WARPS), (TIME,)):
        profiler.read(lambda: None, metrics, 1)
    assert cupti.called.count("ProfilerHostGetConfigImage") == 2
    assert cupti.called.count("ProfilerGetCounterAvailability") == 2


def test_call_runs_once_for_each_pass() -> None:
    cupti = FakeCupti(SQUARE)
    states: list[str] = []
    RangeProfiler(cupti).read(lambda: states.append(cupti.state), (TIME,), 1)
    assert states == ["counting"] * PASSES


def test_metrics_made_by_ncu_are_not_counted() -> None:
    profiler = RangeProfiler(FakeCupti(SQUARE))
    assert profiler.known(["launch__grid_size", TIME, TIME, "no__such.sum"]) == (TIME,)


def test_unknown_suffix_leaves_the_other_metrics() -> None:
    profiler = RangeProfiler(FakeCupti(SQUARE, bad="sm__warps_active.median"))
    assert profiler.known([TIME, "sm__warps_active.median", WARPS]) == (TIME, WARPS)


@pytest.mark.parametrize(("before", "now"), [(1, 2), (3, 2)])
def test_call_with_varying_launches_is_refused(before: int, now: int) -> None:
    profiler = RangeProfiler(FakeCupti(*[SQUARE] * now))
    with pytest.raises(CuptiError, match=f"launched {now} kernels under the profiler and {before} before"):
        profiler.read(lambda: None, (TIME,), before)


def test_exception_of_a_call_detaches_cupti() -> None:
    cupti = FakeCupti(SQUARE)
    profiler = RangeProfiler(cupti)
    with pytest.raises(ZeroDivisionError):
        profiler.read(lambda: 1 / 0, (TIME,), 1)
    assert (cupti.state, cupti.finalised) == ("away", 1)
    assert profiler.read(lambda: None, (TIME,), 1)


@pytest.mark.parametrize(
    ("function", "code", "text"),
    [
        ("RangeProfilerEnable", 35, "the driver denies hardware counters to this user .*NVreg_Restrict"),
        ("ProfilerInitialize", 39, "another profiler holds CUPTI .*torch.profiler, proton, ncu"),
        ("RangeProfilerDecodeData", 999, "^CUPTI's cuptiRangeProfilerDecodeData failed: 999$"),
    ],
)
def test_refusal_says_what_to_do(function: str, code: int, text: str) -> None:
    cupti = FakeCupti(SQUARE, refusals={function: code})
    with pytest.raises(CuptiError, match=text) as caught:
        RangeProfiler(cupti).read(lambda: None, (TIME,), 1)
    assert caught.value.code == code
    assert cupti.state == "away"
