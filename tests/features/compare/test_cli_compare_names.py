"""`gpuperf compare`: names of runs, tests and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compare_command import GEMM, cells, refused, shown, store, two_tiles
from pytest_gpuperf.records import Measurement, Profile, Trace, TracedKernel
from run_builders import measured, record, timing

if TYPE_CHECKING:
    from pathlib import Path


def traced(time_us: float, launches: int) -> Measurement:
    kernel = TracedKernel(name="k", calls=launches, total_us=time_us / 2, mean_us=1.0, share_pct=100.0)
    trace = Trace(kernels=(kernel,), launches=launches, gpu_time_us=time_us / 2, gpu_busy_pct=50.0)
    return Measurement(timing=timing(time_us, "host"), trace=trace)


def test_test_is_found_by_node_id_function_or_part(project: Path) -> None:
    two_tiles(project)
    assert shown(GEMM) == shown("::test_triton") == shown("latest::test_gemm") == shown("latest")
    assert shown("2026::test_triton") == shown(f"latest::{GEMM}[128x128]", f"::{GEMM}[128x256]")


def test_two_functions_are_paired_by_their_parameters(project: Path) -> None:
    tests = [
        record(f"t/test_vit.py::test_{name}[{size}]", main=traced(time_us, launches))
        for name, size, time_us, launches in (
            ("full", 224, 1000, 100),
            ("full", 448, 4000, 100),
            ("reduced", 224, 1200, 150),
            ("reduced", 448, 3000, 150),
        )
    ]
    store(project, *tests)
    assert shown("::test_full", "::test_reduced", "--metrics", "time_us,launches")[2:] == [
        "  metric    unit  test_full  test_reduced",
        "-------------------------------------------------",
        "224",
        "  time_us   us         1000  1200 +20.0 %  worse",
        "  launches              100   150 +50.0 %  worse",
        "448",
        "  time_us   us         4000  3000 -25.0 %  better",
        "  launches              100   150 +50.0 %  worse",
    ]


def test_labels_of_one_test_are_compared(project: Path) -> None:
    store(project, record(GEMM, torch=measured(5.0), triton=measured(4.0)))
    assert "metric      unit  torch       triton" in shown(GEMM)
    assert cells(f"{GEMM} (torch)", "::(triton)")["time_us"][1]["change_pct"] == pytest.approx(-20)


def test_label_after_a_part_selects_among_its_tests(project: Path) -> None:
    small, large, other = f"{GEMM}[64]", f"{GEMM}[4096]", "t/test_copy.py::test_copy"
    store(
        project,
        record(small, cublas=measured(5.0), main=measured(4.0)),
        record(large, cublas=measured(50.0), main=measured(60.0)),
        record(other, main=measured(7.0)),
    )
    assert shown("::test_gemm (cublas)", "::test_gemm (main)", "--metrics", "time_us")[2:] == [
        "time_us  unit  cublas        main",
        "-----------------------------------------",
        "64       us         5   4 -20.0 %  better",
        "4096     us        50  60 +20.0 %  worse",
    ]


def test_value_of_a_parameter_comes_before_a_part(project: Path) -> None:
    store(
        project,
        record(f"{GEMM}[a-256]", main=measured(5.0)),
        record(f"{GEMM}[b-256]", main=measured(4.0)),
        record(f"{GEMM}[a-128x256]", main=measured(9.0)),
        record(f"{GEMM}[b-128x256]", main=measured(7.0)),
    )
    assert shown("::a", "::b", "--metrics", "time_us")[2:] == [
        "time_us  unit  a          b",
        "-----------------------------------",
        "256      us    5  4 -20.0 %  better",
        "128x256  us    9  7 -22.2 %  better",
    ]
    assert shown("::256", "--metrics", "time_us")[2] == "metric   unit  a          b"


def test_many_columns_are_cut_with_a_hint(project: Path) -> None:
    store(project, *(record(f"{GEMM}[{size}]", main=measured(5.0)) for size in range(10)))
    lines = shown(GEMM, "--metrics", "time_us")
    assert lines[-1] == "2 more: name fewer tests, as in latest::TEST; --json has all"
    assert len(cells(GEMM)["time_us"]) == 10


def test_test_in_two_columns_is_refused(project: Path) -> None:
    two_tiles(project)
    assert "'::test_triton' and '::128x' name the same tests of one run" in refused("::test_triton", "::128x")


def test_parameter_in_parentheses_is_not_a_label(project: Path) -> None:
    store(project, record(f"{GEMM}[(64, 32)]", main=measured(5.0)), record(GEMM, main=measured(4.0)))
    assert [cell["value"] for cell in cells(GEMM, "::[(64, 32)")["time_us"]] == [4.0, 5.0]


def test_misspelt_test_gets_a_suggestion(project: Path) -> None:
    two_tiles(project)
    for misspelt in ("t/test_gemm.py::test_trition", "::test_trition"):
        assert f"did you mean {GEMM}[128x" in refused(misspelt)


def test_tests_of_two_runs_show_their_run(project: Path) -> None:
    store(project, record("t/test_a.py::test_a", main=measured(5.0)), id="a")
    store(project, record("t/test_a.py::test_b", main=measured(6.0)), id="b")
    assert "metric      unit  a test_a     b test_b" in shown("a::test_a", "b::test_b")


def test_equal_function_names_show_their_files(project: Path) -> None:
    files = ("t/test_a.py", "t/test_b.py")
    for run_id in ("a", "b"):
        store(project, *(record(f"{file}::test_k", main=measured(5.0)) for file in files), id=run_id)
    lines = shown("a", "b", "--metrics", "time_us")
    assert [line.split()[0] for line in lines[-2:]] == [f"{file}::test_k" for file in files]
    assert "metric   unit  t/test_a.py::test_k  t/test_b.py::test_k" in shown("b", "--metrics", "time_us")


def test_one_measurement_alone_is_refused(project: Path) -> None:
    store(
        project,
        record(GEMM, main=measured(5.0)),
        record("t/a.py::b", main=Measurement(profile=Profile(unavailable="no"))),
    )
    assert f"{GEMM} is one measurement; expected two or more" in refused(GEMM)
    assert f"{GEMM} is one measurement" in refused("latest")


def test_only_an_unknown_run_may_be_a_test(project: Path) -> None:
    assert "measure one with pytest --gpuperf" in refused("latest")
    two_tiles(project)
    assert "type '::test_triton' for a test" in refused("test_triton")
    store(project, record(GEMM, main=measured(5.0)), id="20261121-000000-0000")
    assert "give more of the id" in refused("2026")
