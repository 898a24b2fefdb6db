"""`pytest --gpuperf` on a real GPU, with ncu if it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf.features.ncu.report_reader import ncu_python_dirs
from pytest_gpuperf.measure.ncu.tool import find_ncu
from pytest_gpuperf.records.run_store import load_run
from steps_kernel import KERNEL

needs_ncu = pytest.mark.skipif(
    not (shutil.which("ncu") or Path("/usr/local/cuda/bin/ncu").exists()), reason="needs ncu"
)

STEPS = (
    KERNEL.format(steps=4000)
    + """
import os
import pytest

def reference(x, n=4000):
    y = x.double()
    for _ in range(n):
        y = y * 0.999 + 0.5
    return y

@pytest.fixture
def x(gpuperf):
    torch.manual_seed(0)
    return torch.rand(132 * 8 * 256, device=gpuperf.device)
"""
)


def run_json(pytester: pytest.Pytester) -> Path:
    return sorted((pytester.path / ".gpuperf" / "runs").glob("*/run.json"))[-1]


def gpuperf(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("--gpuperf", "-p", "no:cacheprovider", *arguments)


@needs_ncu
def test_each_mistake_has_its_own_line_and_timing_goes_on(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_k=STEPS
        + """
@pytest.mark.gpuperf(kernels="steps_kernel", limits={"achieved_occupancy": ">= 1"})
def test_good(gpuperf, x):
    got = gpuperf(steps, x, expected=reference, bytes=2 * x.nbytes, atol=1e-3, rtol=1e-3)
    assert got.profile.combined["kernels"] == 1
    assert got.profile.combined["dram__bytes_read.sum"] > 0

@pytest.mark.gpuperf(kernels="steps_kernel")
def test_wrong(gpuperf, x):
    gpuperf(lambda x: steps(x) + 1, x, expected=reference)

@pytest.mark.gpuperf(kernels="nothing_like_it")
def test_no_match(gpuperf, x):
    gpuperf.profile(steps, x)
    gpuperf.time(steps, x)

@pytest.mark.gpuperf(kernels="steps", metrics=["launch__registers_per_warp"])
def test_unknown_metric(gpuperf, x):
    gpuperf.profile(steps, x)
    gpuperf.time(steps, x)

@pytest.mark.gpuperf(kernels="steps", metrics=["dram__bytes_read.sum"], limits=["registers_per_thread <= 1"])
def test_limit(gpuperf, x):
    got = gpuperf.profile(steps, x)
    assert got.combined["dram__bytes_read.sum"] > 0

def test_chain(gpuperf, x):
    got = gpuperf.profile(lambda: steps(steps(x)).sum())
    assert got.combined["kernels"] >= 3
    each = sum(kernel.metrics["duration_us"] for kernel in got.kernels)
    assert got.combined["duration_us"] == pytest.approx(each)

def test_backward(gpuperf):
    w = torch.randn(512, 512, device=gpuperf.device, requires_grad=True)
    got = gpuperf.profile(lambda: (w @ w).sum().backward(), kernels="gemm|nvjet|cutlass")
    assert got.combined["kernels"] >= 3

def test_unwritten(gpuperf, x):
    def half(x):
        y = torch.empty_like(x)
        steps_kernel[(x.numel() // 512,)](y, x, 1, B=256)
        return y
    gpuperf.check(half, x, expected=lambda x: reference(x, 1))

def test_compiled(gpuperf, x):
    fn = torch.compile(lambda x: torch.relu(x) * 2)
    got = gpuperf(fn, x, expected=lambda x: torch.relu(x) * 2, kernels="triton_", bytes=2 * x.nbytes)
    assert got.timing.mode == "hot"
"""
    )
    result = gpuperf(
        pytester,
        "-v",
        "-ogpuperf_budget=0.05",
        "--gpuperf-counters=ncu",
        "--gpuperf-metrics=dram__bytes_read.sum",
    )
    result.assert_outcomes(passed=4, failed=5)
    result.stdout.fnmatch_lines(["*ncu *profiles 9 tests: done in*"])
    result.stdout.fnmatch_lines(["*no kernel of steps was profiled for * 'nothing_like_it'*steps_kernel*"])
    result.stdout.fnmatch_lines(["*no value for the metric 'launch__registers_per_warp'*"])
    result.stdout.fnmatch_lines(["*registers_per_thread * limit <= 1*"])
    result.stdout.fnmatch_lines(["*never written*"])
    tests = {test.nodeid.partition("::")[2]: test for test in load_run(run_json(pytester)).tests}
    assert tests["test_no_match"].measurements["main"].timing is not None
    assert tests["test_unknown_metric"].measurements["main"].timing is not None
    assert tests["test_wrong"].measurements["main"].timing is None
    check_against_ncu_report(pytester, tests["test_good"].measurements["main"].profile)


def test_a_verdict_imports_nothing_slow(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_k="""
import sys, torch

def test_k(gpuperf):
    x = torch.rand(1 << 20, device=gpuperf.device)
    gpuperf(lambda x: x * x, x, expected=lambda x: x * x)

def test_modules():
    slow = ("scipy", "pandas", "hypothesis", "sympy", "torch._dynamo", "triton")
    assert [name for name in slow if name in sys.modules] == []
"""
    )
    gpuperf(pytester, "-p", "no:hypothesispytest").assert_outcomes(passed=2)


@needs_ncu
def test_a_misspelt_counter_ends_the_run_before_it_begins(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf): pass\n")
    result = gpuperf(pytester, "--gpuperf-metrics=sm__troughput.avg.pct_of_peak_sustained_elapsed")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no metric 'sm__troughput*did you mean sm__throughput.avg.pct_of_peak*"])


@needs_ncu
def test_only_preset_and_limited_metrics_are_read(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_k=STEPS
        + """
@pytest.mark.gpuperf(kernels="steps", preset="one-pass", limits=["stall.wait <= 100"])
def test_few(gpuperf, x):
    got = gpuperf.profile(steps, x)
    assert got.combined["achieved_occupancy"] > 0
    assert "sm_throughput" not in got.combined

@pytest.mark.gpuperf(kernels="steps", metrics=["flops.fp32"])
def test_usual(gpuperf, x):
    got = gpuperf.profile(steps, x)
    # A multiply and an add, or both in one.
    assert got.combined["flops.fp32"] == 2 * 4000 * x.numel()
    assert got.combined["pipe.fma"] > 50
    assert got.chip == "gh100" or torch.cuda.get_device_capability() != (9, 0)
"""
    )
    gpuperf(pytester).assert_outcomes(passed=2)
    few, usual = load_run(run_json(pytester)).tests
    profile = few.measurements["main"].profile
    assert profile is not None
    assert profile.preset == "one-pass"
    assert "stall.wait" in profile.combined
    assert usual.measurements["main"].profile != profile


READ_REPORT = """
import json, sys
sys.path.extend(sys.argv[2:])
import ncu_report
report = ncu_report.load_report(sys.argv[1])
for action in report[0]:
    state = action.nvtx_state()
    ranges = [name for i in state.domains() for name in state.domain_by_id(i).start_end_ranges()]
    if any(name.endswith(":test_k.py::test_good#main") for name in ranges):
        names = [name for name in action.metric_names() if action[name].has_value()]
        print(json.dumps({name: action[name].value() for name in names}))
"""


def check_against_ncu_report(pytester: pytest.Pytester, profile: Any) -> None:
    """Compare the values of the run with those that ncu_report reads from the same report."""
    ncu = find_ncu()
    assert ncu is not None
    report = run_json(pytester).parent / "ncu" / "report.ncu-rep"
    command = [sys.executable, "-c", READ_REPORT, *map(str, (report, *ncu_python_dirs(ncu.path)))]
    raw = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    combined = profile.combined
    assert combined["sm_throughput"] == raw["sm__throughput.avg.pct_of_peak_sustained_elapsed"]
    assert combined["achieved_occupancy"] == raw["sm__warps_active.avg.pct_of_peak_sustained_active"]
    assert combined["registers_per_thread"] == raw["launch__registers_per_thread"]
    assert combined["duration_us"] == pytest.approx(raw["gpu__time_duration.sum"] / 1e3)


BASELINED = """
@pytest.mark.gpuperf(kernels="steps_kernel")
def test_steps(gpuperf, x):
    n = int(os.environ.get("STEPS", "4000"))
    gpuperf(lambda x: steps(x, n), x, expected=lambda x: reference(x, n), atol=1e-3, rtol=1e-3)
"""


def test_ten_percent_slower_fails_against_the_baseline(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_k=STEPS + BASELINED)
    first = gpuperf(pytester, "--gpuperf-update=new")
    first.assert_outcomes(passed=1)
    files = list((pytester.path / "baselines").glob("*/test_k.json"))
    assert len(files) == 1
    written = files[0].read_bytes()
    assert json.loads(written)["tests"]["test_k.py::test_steps"]

    again = gpuperf(pytester, "--gpuperf-counters=off")
    again.assert_outcomes(passed=1)

    monkeypatch.setenv("STEPS", "4400")
    slower = gpuperf(pytester, "--gpuperf-counters=off")
    slower.assert_outcomes(failed=1)
    slower.stdout.fnmatch_lines(["*gpuperf: * % slower: * µs (*3 fresh processes*"])
    assert files[0].read_bytes() == written


def test_ctrl_c_keeps_results_and_baselines(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_k=STEPS
        + BASELINED
        + """
def test_interrupted(gpuperf, x):
    gpuperf.time(steps, x)
    raise KeyboardInterrupt
"""
    )
    result = gpuperf(pytester, "--gpuperf-counters=off", "--gpuperf-update=all")
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*the run was interrupted, so no baseline was updated*"])
    run = load_run(run_json(pytester))
    assert not run.complete
    assert [test.nodeid for test in run.tests] == ["test_k.py::test_steps", "test_k.py::test_interrupted"]
    assert not (pytester.path / "baselines").exists()
