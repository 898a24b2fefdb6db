"""Reading ncu files in every format."""

from __future__ import annotations

import contextlib
import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pytest_gpuperf
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ncu.report_file import ReportKernel, read_report

if TYPE_CHECKING:
    from collections.abc import Callable

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
WIDE = CAPTURES / "torch_mixed_raw_wide.csv.gz"
LONG = CAPTURES / "torch_mixed_details_long.csv.gz"
WARNINGS = CAPTURES / "filtered_long_with_warnings.csv.gz"
PASS_REPORT = CAPTURES / "profiling_pass" / "report.ncu-rep.gz"
PASS_CSV = CAPTURES / "profiling_pass" / "raw.csv.gz"

needs_ncu_report = pytest.mark.usefixtures("ncu_report")


@pytest.fixture
def ncu_report() -> object:
    return pytest.importorskip("ncu_report")


def unpacked(packed: Path, folder: Path, name: str = "plain") -> Path:
    path = folder / name
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


def assert_alike(one: list[ReportKernel], other: list[ReportKernel]) -> None:
    """Check for the same launches, and equal values of shared metrics up to the rounding of CSV."""
    assert len(one) == len(other)
    for first, second in zip(one, other, strict=True):
        for field in ("launch", "name", "demangled", "grid", "block", "ranges"):
            assert getattr(first, field) == getattr(second, field)
        for name in first.metrics.keys() & second.metrics.keys():
            value, expected = second.metrics[name], first.metrics[name]
            assert first.unit(name) == second.unit(name)
            if isinstance(expected, str):
                assert value == expected
            else:
                # The share of a stall is 100 times the quotient of two rounded numbers.
                whole = float(first.metrics.get("warp_cycles_per_instruction", 100))
                step = 2 * 100 / whole if name.startswith("stall.") else 1
                assert value == pytest.approx(expected, rel=0.005, abs=0.00501 * step), name


@needs_ncu_report
def test_report_and_its_raw_page_agree() -> None:
    report, csv = read_report(PASS_REPORT), read_report(PASS_CSV)
    assert_alike(report, csv)
    assert [set(kernel.metrics) for kernel in report] == [set(kernel.metrics) for kernel in csv]
    assert set(report[0].metrics) > {"duration_us", "dram_bytes", "stall.wait", "occupancy_limiter"}


@needs_ncu_report
def test_unit_of_a_metric_does_not_depend_on_the_others() -> None:
    name = "derived__sm__sass_thread_inst_executed_op_ffma_pred_on_x2"
    report = CAPTURES / "triton_square_gemm_set_full.ncu-rep.gz"
    for names in ([name], ["derived__avg_thread_executed", name]):
        assert read_report(report, metrics=names)[0].unit(name) == "inst"


def test_content_and_not_the_name_tells_the_format(tmp_path: Path) -> None:
    assert len(read_report(unpacked(WIDE, tmp_path, "looks_like.ncu-rep"))) == 26
    assert read_report(unpacked(WIDE, tmp_path, "looks_like.gz")) == read_report(WIDE)


@needs_ncu_report
def test_report_under_any_name_is_read(tmp_path: Path) -> None:
    path = unpacked(PASS_REPORT, tmp_path, "looks_like.csv")
    assert [kernel.name for kernel in read_report(str(path), "matmul")] == ["matmul_kernel"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_csv_that_powershell_wrote_is_read(tmp_path: Path, encoding: str) -> None:
    text = gzip.decompress(WARNINGS.read_bytes()).decode()
    path = tmp_path / "redirected.csv"
    path.write_bytes(text.replace("\n", "\r\n").encode(encoding))
    assert read_report(path) == read_report(WARNINGS)


def test_regex_searches_function_and_demangled_name() -> None:
    assert [kernel.launch for kernel in read_report(LONG, "^square")] == [0]
    found = {kernel.name for kernel in read_report(LONG, r"mbtopk::\w*Digit")}
    assert found == {"computeBlockDigitCounts", "computeDigitCumSum"}


def test_missing_metric_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(
        GpuperfError, match=r"no kernel of .* has a value for dram__byte\.sum\.per_second"
    ) as raised:
        read_report(WIDE, metrics=["dram__byte.sum.per_second"])
    assert "did you mean dram__bytes.sum.per_second" in str(raised.value)


def test_weights_are_separate_from_metrics() -> None:
    kernel = read_report(WIDE)[0]
    assert kernel.weights["sm__cycles_active.sum"] == 16065247.0
    assert not kernel.weights.keys() & kernel.metrics.keys()


def test_package_exports_reading_and_combining() -> None:
    kernels = pytest_gpuperf.read_report(WARNINGS)
    assert isinstance(kernels[0], pytest_gpuperf.ReportKernel)
    assert pytest_gpuperf.combine(kernels)["duration_us"] == pytest.approx(247.104)  # 65.984 + 175.04 + 6.08


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"broken has no header of ncu CSV"),
        (b"==WARNING== No kernels were profiled.\n", r"broken has no launch: ncu profiled no kernel"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), r"broken has no header of ncu CSV"),
        (gzip.decompress(WIDE.read_bytes())[:-40], r"broken: line \d+ of the CSV text is not a whole row"),
        (gzip.compress(b"ID,Kernel Name\n", mtime=0)[:-9], r"broken cannot be read: Compressed file ended"),
        (b"\x1f\x8b" + bytes(50), r"broken cannot be read"),
        (gzip.compress(WIDE.read_bytes()), r"broken has no header of ncu CSV"),
        (b"ID,Kernel Name,Metric Name,Metric Unit,Metric Value\n", r"broken holds no kernel"),
    ],
)
def test_file_of_another_program_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(GpuperfError, match=message):
        read_report(path)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_file_with_wrong_magic_is_not_a_report(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / ("cut.ncu-rep" if pack is bytes else "cut.ncu-rep.gz")
    path.write_bytes(pack(b"NV"))
    with pytest.raises(GpuperfError) as raised:
        read_report(path)
    assert str(raised.value) == (
        "cut.ncu-rep is damaged, or no report: it does not begin like one; expected a report (.ncu-rep) or "
        "CSV that ncu wrote; copy it again, or profile again"
    )


@needs_ncu_report
@pytest.mark.parametrize("share", [0.001, 0.3, 0.8, 0.9999])
def test_truncated_report_is_an_error(tmp_path: Path, share: float) -> None:
    path = unpacked(PASS_REPORT, tmp_path, "cut.ncu-rep")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(GpuperfError, match=r"cut\.ncu-rep (is damaged|holds no kernel)"):
        read_report(path)


def test_missing_file_and_pipe_are_errors(tmp_path: Path) -> None:
    with pytest.raises(GpuperfError, match=r"there is no file .*gone\.csv"):
        read_report(tmp_path / "gone.csv")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(GpuperfError, match="is not a regular file"):
        read_report(tmp_path / "pipe")


def test_without_ncu_report_only_csv_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ncu_report.py").write_text("raise ImportError\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert len(read_report(WIDE)) == 26
    with pytest.raises(GpuperfError) as raised:
        read_report(PASS_REPORT)
    assert "`pip install ncu-report`" in str(raised.value)
    assert "`ncu --import report.ncu-rep --page raw --csv`" in str(raised.value)


@needs_ncu_report
@settings(max_examples=5, deadline=None)  # each reads in a process of its own
@given(st.data())
def test_report_with_broken_bytes_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(gzip.decompress(PASS_REPORT.read_bytes()))
    for at in data.draw(st.lists(st.integers(4, len(content) - 1), min_size=1, max_size=20)):
        content[at] ^= 0xFF
    path = tmp_path_factory.mktemp("broken") / "broken.ncu-rep"
    path.write_bytes(content)
    with contextlib.suppress(GpuperfError):
        assert read_report(path)
