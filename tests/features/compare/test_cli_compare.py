"""`gpuperf compare`: values, changes and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from compare_command import GEMM, LARGE, SMALL, cells, compare, shown, store, two_tiles
from pytest_gpuperf.records import Accuracy, Correctness, Measurement, OtherTime
from run_builders import H200, measured, profile, record, timing

if TYPE_CHECKING:
    from pathlib import Path


def test_parameters_of_one_test_are_compared(project: Path) -> None:
    two_tiles(project)
    assert shown(GEMM) == snapshot(
        [
            "20261120-173012-3f9a: NVIDIA H200, triton 3.6, commit c0ffee1",
            "",
            "metric                 unit         128x128                  128x256",
            "----------------------------------------------------------------------------",
            "time_us                us               200         180      -10.0 %  better",
            "spread_pct             %                0.1         0.1",
            "sm_throughput          %               80.0        86.0  +6.0 points  better",
            "achieved_occupancy     %                6.0         6.0",
            "occupancy_limiter                shared_mem  shared_mem",
            "registers_per_thread   register         220         206       -6.4 %  better",
            "l2_hit_rate            %               76.0        76.0",
            "stall.long_scoreboard  %               33.0        23.0 -10.0 points",
            "stall.barrier          %                7.0        27.0 +20.0 points",
        ]
    )


def test_two_runs_are_compared_test_by_test(project: Path) -> None:
    store(
        project, record(GEMM, main=measured(200.0)), record("t/test_a.py::test_a", main=measured(5.0)), id="a"
    )
    store(
        project, record(GEMM, main=measured(180.0)), record("t/test_b.py::test_b", main=measured(7.0)), id="b"
    )
    lines = shown("a", "b", "--metrics", "time_us")
    assert "metric   unit    a            b" in lines
    assert "time_us  us    200  180 -10.0 %  better" in lines
    assert lines[-2:] == ["only in a: t/test_a.py::test_a", "only in b: t/test_b.py::test_b"]


def test_runs_of_two_gpu_models_have_the_models_as_titles(project: Path) -> None:
    h100 = replace(H200, name="NVIDIA H100 80GB HBM3", slug="nvidia-h100-80gb-hbm3")
    store(project, record(GEMM, main=measured(200.0)), id="a")
    store(project, record(GEMM, main=measured(220.0)), id="b", gpu=h100)
    assert shown("a", "b", "--metrics=time_us")[3:] == snapshot(
        [
            "metric   unit  H200  H100 80GB HBM3",
            "------------------------------------------",
            "time_us  us     200     220 +10.0 %  worse",
            "",
            "NVIDIA H200 is compared with NVIDIA H100 80GB HBM3",
        ]
    )


def test_times_of_two_modes_are_not_compared(project: Path) -> None:
    store(project, record(GEMM, hot=measured(5.0), cold=measured(9.0, mode="cold")))
    lines = shown(GEMM)
    assert "mode              hot  cold" in [line.rstrip() for line in lines]
    assert "time_us     us      5     9 not compared" in lines
    assert lines[-1] == "hot and cold times are different quantities and are not compared"
    found = cells(GEMM)["time_us"][1]
    assert (found["value"], found["change_pct"], found["compared"]) == (9.0, None, False)


def test_times_are_compared_by_a_common_source(project: Path) -> None:
    both = replace(timing(6.0), source="events", other=OtherTime(time_us=5.0))
    short = replace(timing(4.0), source="cupti")
    store(project, record(GEMM, a=Measurement(timing=short), b=Measurement(timing=both)))
    assert cells(GEMM)["time_us"][1]["change_pct"] == pytest.approx(25)


def test_note_names_times_without_a_common_source(project: Path) -> None:
    short = replace(timing(4.0), source="cupti")
    store(project, record(GEMM, a=Measurement(timing=short), b=Measurement(timing=timing(8.0))))
    assert shown(GEMM)[-1] == "b: the times are from cupti and events, which differ by up to 2 %"


def test_only_exact_counters_of_two_readers_are_compared(project: Path) -> None:
    other = replace(profile(LARGE), source="cupti", cache_control="none")
    store(project, record(GEMM, a=measured(None, SMALL), b=Measurement(profile=other)))
    found = cells(GEMM)
    assert not found["sm_throughput"][1]["compared"]
    assert found["registers_per_thread"][1]["change_pct"] == pytest.approx(-6.3636, abs=1e-3)
    assert "counters read by ncu/all and by cupti/none are different quantities" in " ".join(shown(GEMM))
    assert "read by" not in " ".join(shown(GEMM, "--metrics", "registers_per_thread"))


def test_errors_of_two_types_are_not_compared(project: Path) -> None:
    def checked(dtype: str, rms_ulp: float) -> Measurement:
        accuracy = Accuracy(reference="float64", dtype=dtype, rms_ulp=rms_ulp)
        return Measurement(correctness=Correctness(passed=True, accuracy=accuracy))

    first, worse, other = checked("float32", 2.0), checked("float32", 3.0), checked("float16", 4.0)
    store(project, record(GEMM, a=first, b=worse, c=other))
    _, same, unlike = cells(GEMM)["rms_ulp"]
    assert (same["change_pct"], same["effect"]) == (pytest.approx(50), "worse")
    assert not unlike["compared"]
    text = " ".join(map(str.strip, shown(GEMM)))
    assert "errors of float32 against float64 and of float16 against float64 are different" in text


def test_note_names_a_wrong_result(project: Path) -> None:
    store(project, record(GEMM, a=measured(5.0), b=measured(0.1, correct=False)))
    assert shown(GEMM)[-1] == "b is from a test that failed or had a wrong result"


def test_note_names_different_clocks(project: Path) -> None:
    fast, slow = (
        Measurement(timing=replace(timing(time_us), blocks_mhz=(mhz,)))
        for time_us, mhz in ((5.0, 1980.0), (6.0, 1500.0))
    )
    store(project, record(GEMM, a=fast, b=slow))
    assert shown(GEMM)[-1] == "b was timed at an SM clock of 1500 MHz, the first at 1980"


def test_names_cannot_break_the_markdown_table(project: Path) -> None:
    store(project, record(f"{GEMM}[a|b`]", main=measured(5.0)), record(f"{GEMM}[<b>]", main=measured(10.0)))
    assert compare(GEMM, "--markdown", "--metrics", "time_us").stdout == (
        "20261120-173012-3f9a: NVIDIA H200, triton 3.6, commit c0ffee1\n"
        "\n"
        "| metric | unit | a&#124;b&#96; | &#60;b&#62; | change |  |\n"
        "| --- | --- | ---: | ---: | ---: | --- |\n"
        "| `time_us` | us | 5 | 10 | +100.0 % | worse |\n"
    )


def test_rows_are_chosen_by_metric_preset_or_all(project: Path) -> None:
    two_tiles(project)
    assert list(cells(GEMM, "--metrics", "l2_hit_rate, time_us")) == ["l2_hit_rate", "time_us"]
    assert list(cells(GEMM, "--metrics", "stalls")) == ["stall.barrier", "stall.long_scoreboard"]
    assert set(cells(GEMM, "--metrics", "all")) >= {*SMALL, "time_us", "mode"}
