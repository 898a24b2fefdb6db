"""`gpuperf.trace()` in a test: limits, baselines, summary and frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from present import present
from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.judge.counters import compare_counters
from pytest_gpuperf.judge.limits import parse_limits
from pytest_gpuperf.judge.result import Hints, Status, TestResult
from pytest_gpuperf.judge.verdict import Expected, judge
from pytest_gpuperf.records import Measurement, Trace
from pytest_gpuperf.records.baseline import MeasurementBaseline, TestBaseline
from pytest_gpuperf.records.call import Call
from pytest_gpuperf.session.child_runner import ChildSource
from run_builders import NODEID, record, run, timing
from run_results import expect
from trace_builders import BLOCK

if TYPE_CHECKING:
    from pathlib import Path

    from runs_of_pytest import AddRecording


def judged(trace: Trace, *limits: str, baseline: dict[str, int] | None = None, **parts: Any) -> TestResult:
    known = TestBaseline(measurements={"main": MeasurementBaseline(trace=baseline or {})})
    test = replace(record(main=Measurement(trace=trace, **parts)), limits=limits)
    return judge(test, Expected(known, hints=Hints(accept="accept it")))


@pytest.mark.parametrize(
    "limit",
    [
        "launches <= 202",
        "gpu_busy >= 90 %",
        "launch_gap <= 2.5 us",
        "copies == 0",
        "synchronizations < 1",
        "gpu_time_us <= 10000",
        "class.large_core <= 20",
        "class.elementwise == 0",
        "tensor_core_share == 0",
        "host_launches >= 1",
    ],
)
def test_every_trace_value_can_be_limited(limit: str) -> None:
    assert judged(BLOCK, limit).status is Status.PASS


def test_misspelt_class_suggests_the_right_one() -> None:
    with pytest.raises(Exception, match=r"'class\.small_frequent'"):
        parse_limits("class.small_freqent <= 5")


def test_one_more_launch_is_a_regression() -> None:
    assert judged(BLOCK, baseline=BLOCK.exact).status is Status.PASS
    verdict = judged(BLOCK, baseline={**BLOCK.exact, "launches": 201})
    assert verdict.status is Status.REGRESSED
    assert "launches 202 is worse than the baseline 201 (no tolerance)" in verdict.message()


def test_fewer_launches_are_not_a_regression() -> None:
    assert judged(replace(BLOCK, gpu_busy_pct=1.0), baseline=BLOCK.exact).status is Status.PASS
    known = {**BLOCK.exact, "launches": 300}
    assert judged(BLOCK, baseline=known).status is Status.PASS
    fewer = compare_counters(Measurement(trace=BLOCK), MeasurementBaseline(trace=known))
    assert [line.split()[0] for line in fewer.details] == ["launches"]


def test_baseline_keeps_exact_trace_values(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path / "baselines")
    accept(run(record(main=Measurement(trace=BLOCK))), store, "new", 0.0)
    found = present(store.load("nvidia-h200", "test_square"))
    exact = {"launches": 202, "copies": 0, "synchronizations": 0}
    assert found.tests[NODEID].measurements["main"] == MeasurementBaseline(trace=exact)


def test_trace_is_usable_in_assertions_without_tracing() -> None:
    found = ChildSource().trace(Call("t.py::test_a", "main", print))
    assert found.launches <= 40 < found.launches
    assert found.values["gpu_busy"] > 99
    assert any(row.kernel_class == "small_frequent" and row.share_pct < 5 for row in found.kernels)


TRACED = """
import pytest

@pytest.mark.gpuperf(limits={"launches": "<= 40"})
def test_block(gpuperf):
    found = gpuperf.trace(boom)
    assert found.kernels[0].kernel_class == "small_frequent"
    gpuperf.limit("gpu_busy >= 70")

def boom():
    raise AssertionError("nothing is launched in a replay")
"""


@pytest.fixture
def recording(add_recording: AddRecording) -> None:
    add_recording(run(record("test_b.py::test_block", main=Measurement(trace=BLOCK))))


def test_a_recorded_trace_is_judged_again_without_a_gpu(pytester: pytest.Pytester, recording: None) -> None:
    pytester.makepyfile(test_b=TRACED)
    expect(
        pytester.runpytest("--gpuperf", "-v"),
        "*launches 202 is above the limit <= 40 of the test*",
        "    trace: 202 launches, GPU busy ?? %, gap 2.00 µs*small_frequent 7? %*",
        "    ampere_sgemm_32x32_sliced1x4_tn",
        "        small_frequent*96*",
        failed=1,
    )


def test_test_without_a_trace_is_skipped(pytester: pytest.Pytester, add_recording: AddRecording) -> None:
    add_recording(run(record("test_b.py::test_block", main=Measurement(timing=timing()))))
    pytester.makepyfile(test_b=TRACED)
    expect(pytester.runpytest("--gpuperf", "-rs"), "*not recorded on *; `gpuperf record` adds it*", skipped=1)
