"""Sessions that use the counters of an earlier session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fake_ncu
from pytest_gpuperf.measure.device.lock import HELD_ENV

pytestmark = pytest.mark.usefixtures("forked_runs")
GPU = """
import pathlib, sys
sys.path.append({tests!r})
import fake_torch
fake_torch.install()
import torch
import pytest_gpuperf.measure.device.gpu, pytest_gpuperf.session.live
import pytest_gpuperf.measure.cupti.activity as cupti_activity
import pytest_gpuperf.measure.counters.profiling_pass as profiling_pass
from fake_cupti import activity, recording
from pytest_gpuperf.records.passes import PassFolder
from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
from pytest_gpuperf.records import GpuInfo

HERE = pathlib.Path({root!r})
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"

def read(report, names, **_):
    ranges = [event.range for event in PassFolder(report.parent).events() if event.range]
    known = {{"grid": (blocks, 1, 1), "block": (256, 1, 1), "metrics": {{OCCUPANCY: 80.0}}}}
    return [RawKernel("square_kernel", ranges=(name,), **known) for name in ranges]

class Runtime:
    cudaProfilerStart = cudaProfilerStop = staticmethod(lambda: None)

blocks = int((HERE / "blocks.txt").read_text())
profiling_pass.read_report_isolated = read
cupti_activity.recorded = recording(activity("square_kernel", grid=(blocks, 1, 1)))
pytest_gpuperf.session.live.why_not_live = lambda: ""
pytest_gpuperf.measure.device.gpu.gpu_info = lambda: GpuInfo(
    name="A GPU", slug="a-gpu", uuid="GPU-counter-cache", compute_capability="9.0", multiprocessors=132
)
torch.cuda.synchronize = lambda: None
torch.cuda.is_initialized = lambda: True
torch.cuda.current_device = lambda: 0
torch.cuda.cudart = lambda: Runtime
torch.cuda.nvtx.range_start = torch.cuda.nvtx.range_end = lambda _: 0
"""
TEST = """
import pytest
from kernels import square

@pytest.mark.gpuperf(limits=["achieved_occupancy >= 75"], metrics=["achieved_occupancy"])
@pytest.mark.parametrize("n", [1, 2])
def test_k(gpuperf, n):
    gpuperf.profile(square, n)
"""


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return the GPU that the test processes have too."""
    monkeypatch.setenv(HELD_ENV, "GPU-counter-cache")


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    tests = str(Path(__file__).parents[1])
    pytester.makeconftest(GPU.format(tests=tests, root=str(pytester.path)))
    pytester.makepyfile(
        test_k=TEST, test_other="def test_other(gpuperf):\n    gpuperf.profile(print)\n", kernels=SQUARE
    )
    (pytester.path / "blocks.txt").write_text("8192")
    fake_ncu.install(pytester.path, "profiles the program")
    return pytester


SQUARE = "def square(n): return n * n\n"


def run(project: pytest.Pytester, *arguments: str) -> tuple[pytest.RunResult, list[str]]:
    """Run a session, and list the tests that ran under ncu."""
    before = plans(project)
    options = (
        "--gpuperf",
        f"-ogpuperf_ncu={project.path / 'ncu'}",
        "-ogpuperf_preset=occupancy",
    )
    result = project.runpytest_subprocess("-p", "no:cacheprovider", *options, *arguments)
    new = plans(project) - before
    return result, [nodeid for plan in new for nodeid in json.loads(plan.read_text())["nodeids"]]


def plans(project: pytest.Pytester) -> set[Path]:
    return set((project.path / ".gpuperf" / "runs").glob("*/ncu/plan.json"))


def profiles(project: pytest.Pytester) -> list[dict[str, Any]]:
    newest = max(
        (project.path / ".gpuperf" / "runs").glob("*/run.json"), key=lambda path: path.stat().st_mtime_ns
    )
    tests = json.loads(newest.read_text())["tests"]
    return [test["measurements"]["main"]["profile"] for test in tests]


def said(result: pytest.RunResult) -> str:
    return " ".join(result.stdout.str().split())


def test_skipping_test_is_not_run_under_ncu_again(project: pytest.Pytester) -> None:
    skips = f"""
import pathlib
import pytest
from kernels import square

def test_k(gpuperf):
    if pathlib.Path({str(project.path)!r}, "blocks.txt").read_text() == "8192":
        pytest.skip("not on this GPU")
    gpuperf.profile(square, 1)
"""
    project.makepyfile(test_k=skips)
    for under_ncu in (["test_k.py::test_k"], []):
        result, ran = run(project, "test_k.py")
        result.assert_outcomes(skipped=1)
        assert ran == under_ncu
    (project.path / "blocks.txt").write_text("64")
    result, ran = run(project, "test_k.py")
    result.assert_outcomes(passed=1)
    assert "the test did not make this call; the next run reads them again" in said(result)
    result, ran = run(project, "test_k.py")
    result.assert_outcomes(passed=1)
    assert ran == ["test_k.py::test_k"]


def test_tests_run_under_ncu_again_after_a_source_changed(project: pytest.Pytester) -> None:
    result, ran = run(project)
    result.assert_outcomes(passed=3)
    assert len(ran) == 3
    assert not any("read_at" in profile for profile in profiles(project))

    result, ran = run(project)
    result.assert_outcomes(passed=3)
    assert ran == []
    assert "ncu 2025.3.1.0 profiles" not in said(result)
    assert all(profile["read_at"] for profile in profiles(project))
    assert "3 tests with counters of 20" in said(result)
    assert "--gpuperf-counter-cache=refresh reads them again" in said(result)

    (project.path / "kernels.py").write_text(SQUARE.replace("n * n", "n ** 2"))
    result, ran = run(project)
    result.assert_outcomes(passed=3)
    assert len(ran) == 3


def test_other_launches_are_not_judged_by_old_counters(project: pytest.Pytester) -> None:
    run(project, "test_k.py")
    (project.path / "blocks.txt").write_text("64")
    result, ran = run(project, "test_k.py", "-k", "1")
    assert ran == []
    result.assert_outcomes(passed=1, deselected=1)
    assert "no counters for test_k[1]: its counters, kept on 20" in said(result)
    assert "it launched square_kernel with 8192x1x1 blocks" in said(result)
    assert "with counters of" not in said(result)
    result, ran = run(project, "test_k.py", "-k", "1")
    result.assert_outcomes(passed=1, deselected=1)
    assert ran == ["test_k.py::test_k[1]"]


@pytest.mark.parametrize(
    "argument",
    ["--gpuperf-counter-cache=off", "--gpuperf-counter-cache=refresh", "--gpuperf-update=new", "CI"],
)
def test_new_counters_are_read_on_request(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    run(project, "test_other.py")
    arguments = [argument] if argument != "CI" else []
    if argument == "CI":
        monkeypatch.setenv("CI", "true")
    result, ran = run(project, "test_other.py", *arguments)
    result.assert_outcomes(passed=1)
    assert ran == ["test_other.py::test_other"]


def test_other_launches_fail_a_test_with_required_counters(project: pytest.Pytester) -> None:
    run(project, "test_other.py")
    (project.path / "blocks.txt").write_text("64")
    result, _ = run(project, "test_other.py", "--gpuperf-counters=ncu")
    result.assert_outcomes(failed=1)
    assert "do not fit this run" in said(result)


def test_options_of_the_project_have_their_own_counters(project: pytest.Pytester) -> None:
    conftest = project.path / "conftest.py"
    conftest.write_text(
        f"{conftest.read_text()}\ndef pytest_addoption(parser): parser.addoption('--dtype', default='fp32')\n"
    )
    assert run(project, "test_other.py", "--dtype=fp32")[1]
    assert run(project, "test_other.py", "--dtype=fp16")[1]
    assert run(project, "test_other.py", "--dtype=fp16", "-q", "--gpuperf-strict")[1] == []
    assert run(project, "test_other.py")[1] == []


def test_new_call_has_counters_in_the_second_run(
    project: pytest.Pytester,
) -> None:
    (project.path / "asks.txt").touch()
    project.makepyfile(
        test_other="""
        import pathlib

        def test_other(gpuperf):
            if pathlib.Path("asks.txt").read_text():
                gpuperf.profile(print)
        """
    )
    assert run(project, "test_other.py")[1]
    # Without a change, tests that only time do not start ncu.
    assert run(project, "test_other.py")[1] == []
    (project.path / "asks.txt").write_text("yes")
    result, _ = run(project, "test_other.py")
    result.assert_outcomes(passed=1)
    assert profiles(project)[0]["unavailable"]
    result, _ = run(project, "test_other.py")
    result.assert_outcomes(passed=1)
    assert profiles(project)[0]["combined"]


def test_ci_keeps_nothing(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    run(project, "test_other.py")
    assert not (project.path / ".gpuperf" / "counters").exists()
