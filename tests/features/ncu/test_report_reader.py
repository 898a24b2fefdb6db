from __future__ import annotations

import gzip
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from fake_ncu import LIBRARY
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ncu.report_reader import ncu_python_dirs, read_report
from pytest_gpuperf.metrics import COMPILED_ONLY, METRICS, source_names
from pytest_gpuperf.processes.cuda_toolkit import find_tool

ncu_report = pytest.importorskip("ncu_report")

CAPTURE = Path(__file__).parents[2] / "data" / "captures" / "triton_square_gemm_set_full.ncu-rep.gz"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "full.ncu-rep"
    path.write_bytes(gzip.decompress(CAPTURE.read_bytes()))
    return path


@pytest.fixture
def without_ncu_report(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hide the package, and forget its replacement after the test."""
    installed = sys.modules.pop("ncu_report")
    folder = str(Path(ncu_report.__file__).parents[1])
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != folder])
    yield
    sys.modules["ncu_report"] = installed


def test_kernels_come_in_launch_order_with_their_ranges_and_extents(report: Path) -> None:
    first, *others = read_report(report, ())
    assert first.name == "square_kernel"
    assert first.ranges == ("suites/test_square.py::test_triton[1823-781]",)
    assert first.grid == (1823, 1, 1)
    assert first.block == (128, 1, 1)
    assert [kernel.name for kernel in others] == ["matmul_kernel", "matmul_kernel"]
    assert [kernel.ranges[0][-16:] for kernel in others] == ["st_tile[128-128]", "est_tile[64-128]"]


def test_values_and_units_equal_those_of_ncu_report(report: Path) -> None:
    for kernel, action in zip(read_report(report), ncu_report.load_report(str(report))[0], strict=True):
        for name in action.metric_names():
            metric = action[name]
            if name in kernel.metrics:
                assert metric.has_value()
                assert kernel.metrics[name] == metric.value()
                assert kernel.units[name] == metric.unit()
            else:
                assert not metric.has_value() or not metric.value() or math.isnan(metric.value())
        assert len(kernel.metrics) > 2000


def test_profile_holds_short_metrics_and_the_raw_ones_asked_for(report: Path) -> None:
    extra = "smsp__inst_executed.avg"
    kernel = read_report(report, [*source_names(), extra])[0]
    profile = kernel.profile([extra, "no__such_metric.sum"])
    assert profile.name == "square_kernel"
    assert profile.demangled == ""
    assert set(profile.metrics) == {*kernel.profile().metrics, extra}
    assert set(kernel.profile().metrics) <= set(METRICS)
    raw = kernel.metrics
    assert raw["gpu__time_duration.sum"] == 1e3 * float(profile.metrics["duration_us"])
    assert raw["launch__shared_mem_per_block"] == profile.metrics["shared_memory_per_block"]
    assert raw["sm__maximum_warps_per_active_cycle_pct"] == profile.metrics["theoretical_occupancy"]
    assert profile.metrics["occupancy_limiter"] == "warps"


NOT_IN_SET_FULL = {"tensor_pipe_instructions", "tma_instructions", "l2_bytes", "flops.tensor_fp8"}
NOT_ON_GH100 = {name for name, metric in METRICS.items() if "gh100" not in metric.chips}


def test_full_report_fills_all_metrics(report: Path) -> None:
    for kernel in read_report(report):
        metrics = kernel.profile().metrics
        # ncu counts no bytes of global loads that bypass the registers.
        lacking = set(METRICS) - set(metrics) - {"kernels", "global_load_bytes_per_sector", *COMPILED_ONLY}
        assert lacking == NOT_IN_SET_FULL | NOT_ON_GH100


def test_operations_of_a_full_report_match_the_work(report: Path) -> None:
    square, *products = (kernel.profile().metrics for kernel in read_report(report))
    # Blocks of 1,024 columns: each of the 1,823 rows squares 1,024 elements, including the masked ones.
    assert square["flops.fp32"] == 1823 * 1024
    assert square["flops.tensor_fp16"] == 0
    for product in products:
        assert product["flops.tensor_fp16"] == 2 * 4096**3
        assert product["flops.fp32"] == 0


def test_rules_are_read_with_their_kernel(report: Path) -> None:
    square, gemm, _ = read_report(report, ())
    stall = next(rule for rule in square.rules if rule.title == "Long Scoreboard Stalls")
    assert (stall.rule, stall.section, stall.kind) == ("CPIStall", "WarpStateStats", "optimization")
    assert stall.scope == "global"
    assert stall.estimated_speedup_pct == pytest.approx(55.080383)
    titles = [rule.title for rule in gemm.rules if rule.kind == "information"]
    assert titles == ["High Throughput", "Roofline Analysis"]
    assert all(rule.message for rule in square.rules)


def test_older_copy_without_rules_reads_kernels(without_ncu_report: None, tmp_path: Path) -> None:
    (tmp_path / "ncu_report.py").write_text(LIBRARY.format(values={}, unit=""))
    (tmp_path / "any.ncu-rep").touch()
    (kernel,) = read_report(tmp_path / "any.ncu-rep", (), search=[tmp_path])
    assert (kernel.name, kernel.rules) == ("kernel", ())


def test_nan_of_a_failed_launch_is_counted(without_ncu_report: None, tmp_path: Path) -> None:
    values = """{
        'gpu__time_duration.sum': float('nan'), 'launch__grid_size': 4,
        'device__attribute_display_name': 'Tesla T4',
        'device__attribute_compute_capability_major': 7, 'device__attribute_compute_capability_minor': 5,
    }"""
    (tmp_path / "ncu_report.py").write_text(LIBRARY.format(values=values, unit=""))
    (tmp_path / "any.ncu-rep").touch()
    names = ["gpu__time_duration.sum", "launch__grid_size", "missing__metric.sum"]
    (kernel,) = read_report(tmp_path / "any.ncu-rep", names, search=[tmp_path])
    assert kernel.metrics == {"launch__grid_size": 4.0}
    assert kernel.not_finite == 1
    assert (kernel.gpu, kernel.compute_capability) == ("Tesla T4", "7.5")


def test_copy_of_the_installation_replaces_the_package(without_ncu_report: None, tmp_path: Path) -> None:
    (tmp_path / "ncu_report.py").write_text("def load_report(path):\n    return []\n")
    (tmp_path / "any.ncu-rep").touch()
    before = list(sys.path)
    with pytest.raises(GpuperfError, match="holds no kernel"):
        read_report(tmp_path / "any.ncu-rep", search=[tmp_path / "nothing", tmp_path])
    assert sys.path == before


def make_ncu(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    ncu = folder / "ncu"
    ncu.touch(mode=0o755)
    return ncu


def test_copy_is_found_above_the_real_binary_behind_a_link(tmp_path: Path) -> None:
    ncu = make_ncu(tmp_path / "2025.3.1" / "target" / "linux")
    python = tmp_path / "2025.3.1" / "extras" / "python"
    python.mkdir(parents=True)
    link = tmp_path / "bin" / "ncu"
    link.parent.mkdir()
    link.symlink_to(ncu)
    assert ncu_python_dirs(link) == (python,)


def test_newest_copy_of_a_cuda_toolkit_comes_first(tmp_path: Path) -> None:
    ncu = make_ncu(tmp_path / "bin")
    versions = ["2024.3.2", "2025.10.0", "2025.3.1"]
    for version in versions:
        (tmp_path / f"nsight-compute-{version}" / "extras" / "python").mkdir(parents=True)
    found = [path.parents[1].name for path in ncu_python_dirs(ncu)]
    assert found == ["nsight-compute-2025.10.0", "nsight-compute-2025.3.1", "nsight-compute-2024.3.2"]


def test_newest_nvidia_package_is_found_without_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pythons = [tmp_path / version / "extras" / "python" for version in ("2025.10.0", "2025.3.1")]
    for python in pythons:
        python.mkdir(parents=True)
    monkeypatch.setattr("pytest_gpuperf.features.ncu.report_reader.NVIDIA_PACKAGES", tmp_path)
    monkeypatch.setattr("pytest_gpuperf.features.ncu.report_reader.find_tool", lambda _: None)
    assert ncu_python_dirs(None) == tuple(pythons)


@pytest.mark.parametrize(("home", "found"), [("", None), ("/opt/cuda", "/opt/cuda/bin/ncu")])
def test_ncu_of_a_toolkit_is_found(monkeypatch: pytest.MonkeyPatch, home: str, found: str | None) -> None:
    present = ("/bin/ncu", "/opt/cuda/bin/ncu")
    monkeypatch.setattr("shutil.which", lambda name: name if name in present else None)
    monkeypatch.setenv("CUDA_HOME", home)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    assert find_tool("ncu") == found


def test_ncu_is_searched_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ncu_python_dirs(None) == ()
    make_ncu(tmp_path)
    python = tmp_path / "extras" / "python"
    python.mkdir(parents=True)
    assert ncu_python_dirs(None) == (python,)
