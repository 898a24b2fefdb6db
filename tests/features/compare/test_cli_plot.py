"""`gpuperf plot`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from pytest_gpuperf.cli import main
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.compare.choosing import choose
from pytest_gpuperf.features.compare.curve_picture import axis_label, picture_of_curves
from pytest_gpuperf.features.compare.curves import Curves, curves_of
from pytest_gpuperf.features.page.picture import Line
from pytest_gpuperf.records import GpuInfo, Measurement
from pytest_gpuperf.records.runs import RunStore
from run_builders import measured, record, run, timing

if TYPE_CHECKING:
    from pytest_gpuperf.records import MetricValue, Run, TestRecord

SQUARE = "t/test_square.py::test_"


@pytest.fixture
def matplotlib() -> object:
    return pytest.importorskip("matplotlib")


needs_matplotlib = pytest.mark.usefixtures("matplotlib")


def copied(name: str, n: int, gb_per_s: float) -> TestRecord:
    measurement = Measurement(timing=timing(n / gb_per_s / 1e3, bytes=n))
    return record(f"{SQUARE}{name}[{n}]", main=measurement)


def squares(project: Path) -> None:
    tests = [copied(name, n, rate) for name, rate in (("torch", 4e3), ("triton", 3e3)) for n in (1024, 16384)]
    RunStore(project / ".gpuperf").write(run(*tests))


def plot(*args: str) -> Result:
    return CliRunner().invoke(main, ["plot", *args])


def curves(kept: Run, ref: str = "latest", **options: str) -> Curves:
    return curves_of([choose(ref, lambda _: kept)], **options)


@needs_matplotlib
def test_each_function_is_a_line_over_the_sizes(project: Path) -> None:
    squares(project)
    result = plot("t/test_square.py", "--x", "N", "--y", "gb_per_s", "-o", "out/square.svg")
    assert result.output == "wrote out/square.svg (2 lines, 4 points)\n"
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", (project / "out/square.svg").read_text())
    for text in ("N", "GB/s", "1024", "16384", "test_torch", "test_triton", "t/test_square.py"):
        assert text in texts
    assert "20261120-173012-3f9a: NVIDIA H200, triton 3.6, commit c0ffee1" in texts


@needs_matplotlib
@pytest.mark.parametrize(("suffix", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_same_run_makes_the_same_bytes(project: Path, suffix: str, magic: bytes) -> None:
    squares(project)
    pictures = []
    for name in ("one", "other"):
        assert plot("latest", "-o", f"{name}.{suffix}").exit_code == 0
        pictures.append((project / f"{name}.{suffix}").read_bytes())
    assert pictures[0].startswith(magic)
    assert pictures[0] == pictures[1]


@needs_matplotlib
def test_name_cannot_become_markup_or_a_formula(project: Path) -> None:
    tests = [record(f"{SQUARE}a[{n}-$<b>&$]", main=measured(1.0 * n)) for n in (1, 2)]
    tests += [record(f"{SQUARE}a[{n}-_x]", main=measured(1.0 * n)) for n in (1, 2)]
    RunStore(project / ".gpuperf").write(run(*tests))
    assert plot("latest", "-o", "a.svg").exit_code == 0
    drawn = (project / "a.svg").read_text()
    assert "$&lt;b&gt;&amp;$" in drawn
    assert "<b>" not in drawn


@needs_matplotlib
def test_logarithmic_axis_has_plain_numbers(project: Path) -> None:
    tests = [record(f"{SQUARE}a[{2**n}]", main=measured(10.0 ** (n - 4))) for n in range(1, 16)]
    RunStore(project / ".gpuperf").write(run(*tests))
    assert plot("latest", "--log-y", "-o", "a.svg").exit_code == 0
    assert "mathdefault" not in (project / "a.svg").read_text()


def test_missing_matplotlib_names_the_package_to_install(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squares(project)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = plot("latest", "-o", "a.svg")
    assert result.exit_code == 2
    assert 'pip install "pytest-gpuperf[plot]"' in result.stderr
    assert not (project / "a.svg").exists()


def test_unknown_picture_format_is_refused(project: Path) -> None:
    squares(project)
    result = plot("latest", "-o", "a.gif")
    assert result.exit_code == 2
    assert "expected a name that ends in .svg, .png or .pdf" in result.stderr


def test_shape_is_as_large_as_its_elements() -> None:
    kept = run(*(record(f"{SQUARE}a[{n}x2]", main=measured(1.0 * n)) for n in (300, 20)))
    (curve,) = curves(kept).curves
    assert [tuple(point) for point in curve.points] == [(40, 20.0, "20x2"), (600, 300.0, "300x2")]


def test_times_of_two_modes_are_two_lines() -> None:
    tests = [record(f"{SQUARE}a[{n}]", main=measured(1.0 * n)) for n in (1, 2)]
    tests += [record(f"{SQUARE}a[{n}]", main=measured(3.0 * n, mode="cold")) for n in (3, 4)]
    found = curves(run(*tests)).curves
    assert [(curve.name, len(curve.points)) for curve in found] == [("hot", 2), ("cold", 2)]


def test_labels_and_other_parameters_are_lines_of_their_own() -> None:
    tests = [
        record(f"{SQUARE}a[{n}-{dtype}]", main=measured(1.0), copy=measured(2.0))
        for n in (1, 2)
        for dtype in ("fp16", "fp32")
    ]
    names = [curve.name for curve in curves(run(*tests), x="1").curves]
    assert names == ["fp16", "fp16 (copy)", "fp32", "fp32 (copy)"]


def test_runs_are_lines_of_their_own() -> None:
    tests = [record(f"{SQUARE}a[{n}]", main=measured(1.0)) for n in (1, 2)]
    kept = {run_id: run(*tests, id=run_id) for run_id in ("a", "b")}
    found = curves_of([choose(run_id, lambda ref: kept[ref or ""]) for run_id in kept])
    assert [curve.name for curve in found.curves] == ["a", "b"]


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


def with_counters(project: Path) -> None:
    counters: dict[str, MetricValue] = {"stall.wait": 60.0, "stall.barrier": 9.0}
    RunStore(project / ".gpuperf").write(run(record(f"{SQUARE}a[1]", main=measured(5.3, counters))))


@needs_matplotlib
def test_picture_of_one_test_names_it_and_its_run(project: Path) -> None:
    with_counters(project)
    result = plot("::test_a", "--picture", "stalls", "-o", "a.svg")
    assert result.output == "wrote a.svg (stalls)\n"
    drawn = (project / "a.svg").read_text()
    for text in (f"Reasons why warps wait: {SQUARE}a[1]", "barrier", "20261120-173012-3f9a: NVIDIA H200"):
        assert text in drawn


@needs_matplotlib
@pytest.mark.parametrize("name", ["sessions", "blocks", "roofline", "timeline"])
def test_every_picture_of_the_recordings_is_drawn(name: str, tmp_path: Path) -> None:
    from pytest_gpuperf.cli.project import find_project
    from pytest_gpuperf.features.compare.plot_picture import picture_of
    from pytest_gpuperf.features.page.picture_file import draw

    ref = "20261121-233201::test_fused_bfloat16" if name == "timeline" else "20261122-235542::test_cublas"
    picture = picture_of(find_project(Path(__file__).parents[3]), ref, name)
    assert draw(picture, "svg").startswith(b"<?xml")


def test_unmeasured_picture_says_how_to_measure_it(project: Path) -> None:
    with_counters(project)
    result = plot("::test_a", "--picture", "roofline", "-o", "a.svg")
    assert result.exit_code == 2
    assert "expected one of stalls" in result.stderr
    assert "-o gpuperf_preset=roofline" in result.stderr


def test_picture_of_several_tests_is_refused(project: Path) -> None:
    squares(project)
    result = plot("latest", "--picture", "blocks", "-o", "a.svg")
    assert result.exit_code == 2
    assert "'latest' names 4 measurements" in result.stderr
    assert not (project / "a.svg").exists()


def test_ncu_file_has_a_roofline_of_its_kernels() -> None:
    pytest.importorskip("ncu_report")
    from pytest_gpuperf.cli.project import find_project
    from pytest_gpuperf.features.compare.plot_picture import picture_of

    capture = Path(__file__).parents[2] / "data" / "captures" / "triton_square_gemm_set_full.ncu-rep.gz"
    picture = picture_of(find_project(), f"{capture}::square", "roofline")
    assert picture.title == "Roofline: square_kernel"
    assert picture.notes[-1] == capture.name


def test_peak_of_dram_is_a_line_of_the_plot() -> None:
    tests = [copied("a", n, 3e3) for n in (1024, 16384)]
    gpu = GpuInfo(name="NVIDIA H200", slug="nvidia-h200", dram_gb_per_s=4814.0)
    picture = picture_of_curves(curves(run(*tests)), gpus=[gpu], title="", source=())
    assert [mark.name for mark in picture.marks if isinstance(mark, Line)] == ["peak of DRAM, 4814 GB/s", ""]


@pytest.mark.parametrize(
    ("metric", "unit", "label"),
    [
        ("gb_per_s", "GB/s", "GB/s"),
        ("time_us", "us", "time (µs)"),
        ("achieved_occupancy", "%", "achieved occupancy (%)"),
        ("dram_bytes", "byte", "dram bytes"),
        ("dram__bytes.sum", "byte", "dram__bytes.sum (bytes)"),
    ],
)
def test_axes_have_words_and_units_of_people(metric: str, unit: str, label: str) -> None:
    assert axis_label(metric, unit) == label
