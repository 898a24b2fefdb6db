"""`gpuperf plot`."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import pytest

from command_line import gpuperf
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.compare.curve_picture import picture_of_curves
from pytest_gpuperf.features.compare.curves import Curves, curves_of
from pytest_gpuperf.features.compare.selectors import choose_all
from pytest_gpuperf.features.page.picture import Polyline
from pytest_gpuperf.records import GpuInfo, Measurement
from pytest_gpuperf.records.run_store import RunStore
from run_builders import measured, record, run, timing

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.records import MetricValue, Run, TestRecord

SQUARE = "t/test_square.py::test_"


def copied(name: str, n: int, gb_per_s: float) -> TestRecord:
    measurement = Measurement(timing=timing(n / gb_per_s / 1e3, bytes=n))
    return record(f"{SQUARE}{name}[{n}]", main=measurement)


def squares(project: Path) -> None:
    tests = [copied(name, n, rate) for name, rate in (("torch", 4e3), ("triton", 3e3)) for n in (1024, 16384)]
    RunStore(project / ".gpuperf").write(run(*tests))


plot = partial(gpuperf, "plot")


def curves(kept: Run, ref: str = "latest", **options: str) -> Curves:
    return curves_of(choose_all(ref, lambda _: [kept]), **options)


def test_each_function_is_a_line_over_the_sizes(project: Path) -> None:
    squares(project)
    result = plot("t/test_square.py", "--x", "N", "--y", "gb_per_s", "-o", "out/square.svg")
    assert result.output == "wrote out/square.svg (2 lines, 4 points)\n"
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", (project / "out/square.svg").read_text())
    for text in ("N", "GB/s", "1024", "16384", "test_torch", "test_triton", "t/test_square.py"):
        assert text in texts
    assert "20261120-173012-3f9a: NVIDIA H200, triton 3.6, commit c0ffee1" in texts


def test_same_run_makes_the_same_bytes(project: Path) -> None:
    squares(project)
    pictures = []
    for _ in range(2):  # the second call replaces the file of the first
        assert plot("latest", "-o", "one.svg").exit_code == 0
        pictures.append((project / "one.svg").read_bytes())
    assert pictures[0] == pictures[1]


def test_name_cannot_become_markup(project: Path) -> None:
    tests = [
        record(f"{SQUARE}a[{n}-{word}]", main=measured(1.0 * n)) for n in (1, 2) for word in ("<b>", "_x")
    ]
    RunStore(project / ".gpuperf").write(run(*tests))
    assert plot("latest", "-o", "a.svg").exit_code == 0
    drawn = (project / "a.svg").read_text()
    assert "&lt;b&gt;" in drawn
    assert "<b>" not in drawn


def test_unknown_picture_format_is_refused(project: Path) -> None:
    squares(project)
    result = plot("latest", "-o", "a.gif", status=2)
    assert "expected a name that ends in .svg" in result.stderr


def test_shape_is_as_large_as_its_elements() -> None:
    kept = run(*(record(f"{SQUARE}a[{n}x2]", main=measured(1.0 * n)) for n in (300, 20)))
    (curve,) = curves(kept).curves
    assert [tuple(point) for point in curve.points] == [(40, 20.0, "20x2"), (600, 300.0, "300x2")]


def test_times_of_two_modes_are_two_lines() -> None:
    tests = [record(f"{SQUARE}a[{n}]", main=measured(1.0 * n)) for n in (1, 2)]
    tests += [record(f"{SQUARE}a[{n}]", main=measured(3.0 * n, mode="cold")) for n in (3, 4)]
    found = curves(run(*tests)).curves
    assert [(curve.name, len(curve.points)) for curve in found] == [("hot", 2), ("cold", 2)]


def test_failed_test_is_left_out() -> None:
    tests = [record(f"{SQUARE}a[{n}]", main=measured(1.0, correct=n < 3)) for n in (1, 2, 3)]
    found = curves(run(*tests))
    assert len(found.curves[0].points) == 2
    assert found.left_out == (f"{SQUARE}a[3]",)


def test_only_measured_numbers_are_suggested() -> None:
    counters: dict[str, MetricValue] = {"occupancy_limiter": "registers", "occupancy_limit.warps": 16.0}
    tests = [record(f"{SQUARE}a[{n}]", main=measured(5.3, counters)) for n in (1, 2)]
    with pytest.raises(GpuperfError) as refused:
        curves(run(*tests), y="occupancy_limiter")
    assert str(refused.value).endswith("; did you mean occupancy_limit.warps?")


def test_peak_of_dram_is_a_line_of_the_plot() -> None:
    tests = [copied("a", n, 3e3) for n in (1024, 16384)]
    gpu = GpuInfo(name="NVIDIA H200", slug="nvidia-h200", dram_gb_per_s=4814.0)
    picture = picture_of_curves(curves(run(*tests)), gpus=[gpu], title="", source=())
    names = [mark.name for mark in picture.marks if isinstance(mark, Polyline)]
    assert names == ["peak of DRAM, 4814 GB/s", ""]
