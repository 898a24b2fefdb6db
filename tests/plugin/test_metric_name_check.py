"""Metric names are checked before the tests run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters import metric_name_check
from pytest_gpuperf.measure.counters.metric_name_check import check_names
from pytest_gpuperf.measure.cupti.chip_metrics import NoHostLibraryError
from pytest_gpuperf.records import GpuInfo
from run_builders import measured, record, run
from run_results import expect_usage_error

if TYPE_CHECKING:
    from runs_of_pytest import AddRecording


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_chip: str) -> frozenset[str]:
        raise NoHostLibraryError("none")

    monkeypatch.setattr(metric_name_check, "supported_metrics", refuse)


@pytest.mark.parametrize(
    ("name", "chip", "said"),
    [
        ("dram__bytes_raed.sum", "gh100", "'dram__bytes_raed.sum' on GH100.*did you mean dram__bytes_read"),
        ("dram__bytes.summ", "gh100", r"dram__bytes has no '\.summ'; expected one such as \.sum"),
        ("dram__bytes", "gh100", "'dram__bytes' has no suffix; expected one such as"),
        (
            "dram__bytes_read.sum",
            "gb202",
            r"dram__bytes_read\.sum is unavailable on GB202; there it is dram__bytes_op_read\.sum",
        ),
        (
            "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio",
            "ga100",
            "gmma_per_issue_active.ratio is unavailable on GA100$",
        ),
        ("dram_throuhgput", "gh100", "no metric 'dram_throuhgput'.*did you mean dram_throughput"),
    ],
)
def test_name_the_chip_lacks_is_an_error(cupti_host_library: None, name: str, chip: str, said: str) -> None:
    with pytest.raises(GpuperfError, match=said):
        check_names(["dram__bytes.sum", name], chip)


def test_metrics_made_by_ncu_are_left_to_ncu(cupti_host_library: None) -> None:
    check_names(
        [
            "launch__registers_per_thread",
            "sm__maximum_warps_per_active_cycle_pct",
            "smsp__pcsamp_warps_issue_stalled_barrier",
            "device__attribute_display_name",
            "group:memory__chart",
            "stall.barrier",
        ],
        "gh100",
    )


def test_without_a_library_raw_names_are_left_to_ncu(no_library: None) -> None:
    check_names(["dram__bytes_raed.sum"], "gh100")
    with pytest.raises(GpuperfError, match="no metric 'dram_bites'"):
        check_names(["dram_bites"], "gh100")


def test_an_unknown_chip_is_left_to_ncu() -> None:
    check_names(["dram__bytes_raed.sum"], "")


RECORDED = run(
    record("test_k.py::test_k", main=measured(5.3, {"memory_throughput": 77.0})),
    gpu=GpuInfo(name="NVIDIA H200", slug="nvidia-h200", compute_capability="9.0"),
)


@pytest.mark.parametrize(
    ("decorator", "arguments"),
    [
        ("metrics=['dram__bytes_raed.sum']", []),
        ("limits=['dram__bytes_raed.sum <= 5']", []),
        ("kernels='k'", ["--gpuperf-metrics=dram__bytes_raed.sum"]),
    ],
)
def test_misspelt_name_ends_the_run_early(
    cupti_host_library: None,
    pytester: pytest.Pytester,
    add_recording: AddRecording,
    decorator: str,
    arguments: list[str],
) -> None:
    add_recording(RECORDED)
    pytester.makepyfile(
        test_k=f"""
        import pytest

        @pytest.mark.gpuperf({decorator})
        def test_k(gpuperf):
            print("it ran")
        """
    )
    result = pytester.runpytest("--gpuperf", "-s", *arguments)
    expect_usage_error(result, "*'dram__bytes_raed.sum' on GH100*did you mean*dram__bytes_read.sum*")
    result.stdout.no_fnmatch_line("*it ran*")
