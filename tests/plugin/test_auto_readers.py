"""Sessions under `--gpuperf-counters=auto`: CUPTI reads in the process, and ncu before the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fake_ncu
from pytest_gpuperf.measure.device.lock import HELD_ENV

pytestmark = pytest.mark.usefixtures("forked_runs")
GPU = """
import sys
sys.path.append({tests!r})
import torch
import pytest_gpuperf.measure.cupti.activity as cupti_activity
import pytest_gpuperf.measure.counters.profiling_pass as profiling_pass
import pytest_gpuperf.measure.device.gpu, pytest_gpuperf.session.live
import kernels
from contextlib import contextmanager
from fake_cupti import CONTEXT, FakeCupti, activity
from pytest_gpuperf.measure.counters import cupti_counters
from pytest_gpuperf.measure.cupti import range_profiler
from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
from pytest_gpuperf.records import GpuInfo
from pytest_gpuperf.records.passes import PassFolder

OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
CUPTI = FakeCupti({{"gpu__time_duration.sum": 5000.0, OCCUPANCY: 80.0}}, refusals={refusals!r})

def read(report, names, **_):
    ranges = [event.range for event in PassFolder(report.parent).events() if event.range]
    known = {{"grid": (8192, 1, 1), "block": (256, 1, 1), "metrics": {{OCCUPANCY: 80.0}}}}
    return [
        RawKernel("square_kernel", ranges=(name,), **known)
        for name in ranges
        for _ in range(1 + name.endswith("graph"))
    ]

@contextmanager
def recorded(**_):
    found = []
    yield found
    found += [activity("square_kernel")] * (1 + (kernels.last == "graph"))

class Runtime:
    cudaProfilerStart = cudaProfilerStop = staticmethod(lambda: None)

profiling_pass.read_report_isolated = read
pytest_gpuperf.session.live.why_not_live = lambda: ""
pytest_gpuperf.measure.device.gpu.gpu_info = lambda: GpuInfo(
    name="A GPU", slug="a-gpu", uuid="GPU-auto-readers", compute_capability="9.0", multiprocessors=132
)
torch.cuda.synchronize = lambda: None
torch.cuda.is_initialized = lambda: True
torch.cuda.current_device = lambda: 0
torch.cuda.cudart = lambda: Runtime
torch.cuda.nvtx.range_start = torch.cuda.nvtx.range_end = lambda _: 0
range_profiler._current_context = lambda: CONTEXT
range_profiler.why_no_range_profiler = lambda: ""
cupti_counters.cupti = lambda: CUPTI
cupti_counters.recorded = cupti_activity.recorded = recorded
cupti_counters.CleanFlush = lambda l2_bytes: lambda: None
"""
KERNELS = """
last = ""

def plain():
    global last
    last = "plain"

def graph():
    global last
    last = "graph"
"""
TEST = """
import kernels

def test_k(gpuperf):
    gpuperf.profile(kernels.plain, label="plain")
    gpuperf.profile(kernels.graph, label="graph")
"""


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return the GPU that the test processes have too."""
    monkeypatch.setenv(HELD_ENV, "GPU-auto-readers")


def project(pytester: pytest.Pytester, refusals: dict[str, int] | None = None, test: str = TEST) -> None:
    """Write a project whose test makes a call that CUPTI can read, and a graph."""
    pytester.makeconftest(GPU.format(tests=str(Path(__file__).parents[1]), refusals=refusals or {}))
    pytester.makepyfile(test_k=test, kernels=KERNELS)
    fake_ncu.install(pytester.path, "profiles the program")


def run(pytester: pytest.Pytester, *arguments: str) -> tuple[str, dict[str, Any], bool]:
    """Run a session; return its output, its profiles by label, and True if ncu was started."""
    before = set(pytester.path.glob(".gpuperf/runs/*"))
    options = (
        "--gpuperf",
        f"-ogpuperf_ncu={pytester.path / 'ncu'}",
        "--gpuperf-metrics=achieved_occupancy",
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-v", *options, *arguments)
    (new,) = set(pytester.path.glob(".gpuperf/runs/*")) - before
    (test,) = json.loads((new / "run.json").read_text())["tests"]
    profiles = {label: one["profile"] for label, one in test["measurements"].items()}
    return " ".join(result.stdout.str().split()), profiles, (new / "ncu").exists()


def readers(profiles: dict[str, Any]) -> list[str]:
    return ["" if one.get("unavailable") else one.get("source", "ncu") for one in profiles.values()]


def test_a_graph_is_read_by_ncu_from_the_second_run_on(pytester: pytest.Pytester) -> None:
    project(pytester)
    said, profiles, started = run(pytester)
    assert (readers(profiles), started) == (["cupti", ""], False)
    assert "whose kernels CUPTI counts as one; the next run reads it by ncu" in said
    _, profiles, started = run(pytester)
    assert (readers(profiles), started) == (["cupti", "ncu"], True)
    _, profiles, started = run(pytester)
    assert (readers(profiles), started) == (["cupti", "ncu"], False)
    assert all(one["read_at"] for one in profiles.values())


def test_each_call_keeps_the_reader_of_its_baseline(pytester: pytest.Pytester) -> None:
    project(pytester)
    run(pytester)
    run(pytester, "--gpuperf-update=all")
    # A fresh checkout has baselines, and no kept counters.
    for path in pytester.path.glob(".gpuperf/counters/*"):
        path.unlink()
    said, profiles, started = run(pytester)
    assert (readers(profiles), started) == (["cupti", "ncu"], True)
    assert "only exact ones are judged" not in said


def test_kept_counters_of_ncu_serve_the_option_too(pytester: pytest.Pytester) -> None:
    project(pytester)
    run(pytester)
    run(pytester)
    _, profiles, started = run(pytester, "--gpuperf-counters=ncu")
    assert (readers(profiles), started) == (["ncu", "ncu"], False)


def test_a_test_that_stops_early_stays_with_ncu(pytester: pytest.Pytester) -> None:
    project(pytester)
    run(pytester)
    stops = "    if pathlib.Path('stops').exists(): raise ValueError\n    gpuperf.profile(kernels.graph"
    (pytester.path / "stops").touch()
    path = pytester.path / "test_k.py"
    path.write_text("import pathlib\n" + path.read_text().replace("    gpuperf.profile(kernels.graph", stops))
    run(pytester)
    (pytester.path / "stops").unlink()
    _, profiles, _ = run(pytester)
    assert readers(profiles) == ["cupti", "ncu"]


def test_ncu_reads_all_if_cupti_is_refused(pytester: pytest.Pytester) -> None:
    project(pytester, refusals={"RangeProfilerEnable": 35})
    said, profiles, _ = run(pytester)
    assert readers(profiles) == ["ncu", "ncu"]
    assert "ncu has read the counters, in another process: the driver denies hardware counters" in said
