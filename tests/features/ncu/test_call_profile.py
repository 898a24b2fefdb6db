"""The profile of a call, from the kernels that were read."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

import fake_ncu
from pytest_gpuperf.features.ncu.common_weights import weights_used
from pytest_gpuperf.features.ncu.report_file import read_report as read_file
from pytest_gpuperf.features.ncu.report_reader import read_report
from pytest_gpuperf.measure.counters.counter_source import CounterSource, RawKernel, names_to_read
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.metrics.combination import combine
from pytest_gpuperf.records.call import Call, Selection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gpuperf.records import Profile


def profile(kernels: Sequence[RawKernel], *metrics: str) -> Profile:
    return CounterSource("ncu", "gh100").profile_of(Call("", "", print), kernels, Selection(), metrics)


def test_launches_combine_as_in_an_ncu_file(tmp_path: Path) -> None:
    pytest.importorskip("ncu_report")
    report = tmp_path / "full.ncu-rep"
    packed = fake_ncu.CAPTURE.parent / "triton_square_gemm_set_full.ncu-rep.gz"
    report.write_bytes(gzip.decompress(packed.read_bytes()))
    of_file = read_file(report)
    names = ("sm_throughput", "achieved_occupancy", "l2_hit_rate", "stall.barrier", "issue_active")
    found = profile(read_report(report, names_to_read(names, "gh100")), *names)
    assert len(found.kernels) > 1
    expected = combine(of_file)
    assert found.combined == {"kernels": len(of_file), **{name: expected[name] for name in names}}
    assert weights_used(found.kernels, found.combined) == weights_used(of_file, found.combined)


def test_only_launch_of_a_call_keeps_no_weights() -> None:
    kernel = RawKernel(name="kernel", metrics={"sm__cycles_active.sum": 7.0, "gpu__time_duration.sum": 1.0})
    assert profile([kernel, kernel], "achieved_occupancy", "duration_us").kernels[0].weights == {}
    share = {"sm__warps_active.avg.pct_of_peak_sustained_active": 50.0}
    kernel = RawKernel(name="kernel", metrics={**kernel.metrics, **share})
    assert profile([kernel, kernel], "achieved_occupancy").kernels[0].weights
    assert profile([kernel], "achieved_occupancy").kernels[0].weights == {}


@pytest.mark.parametrize("chip", ["", "gh100", "gb202"])
def test_weights_are_requested_with_a_metric(chip: str) -> None:
    found = names_to_read(["stall.barrier", "dram__throughput.avg.pct_of_peak_sustained_elapsed"], chip)
    assert {
        "smsp__inst_issued.sum",
        *METRICS["warp_cycles_per_instruction"].requests(chip),
        "dram__cycles_elapsed.sum",
        "gpu__time_duration.sum",
    } <= set(found)


def test_missing_metric_requests_no_weights() -> None:
    assert names_to_read(["stall.gmma", "waves"], "gb202") == ["launch__waves_per_multiprocessor"]
