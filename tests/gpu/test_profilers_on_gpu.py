"""Tests next to a user's own profiler, on a real GPU: both give their records."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

TESTS = """
import json, torch
import triton.profiler as proton

CUDA = [torch.profiler.ProfilerActivity.CUDA]

def square(x):
    return x * x

def kernels(fn, *args):
    with torch.profiler.profile(activities=CUDA) as profiler:
        fn(*args)
        torch.cuda.synchronize()
    return sum(event.count for event in profiler.key_averages() if "elementwise" in event.key)

def test_proton_around(gpuperf, tmp_path):
    x = torch.randn(64, 64, device=gpuperf.device)
    proton.start(str(tmp_path / "own"))
    with proton.scope("before"):
        square(x)
    timing = gpuperf(square, x, expected=square).timing
    with proton.scope("after"):
        square(x)
        torch.cuda.synchronize()
    proton.finalize()
    root = json.loads((tmp_path / "own.hatchet").read_text())[0]
    scopes = {child["frame"]["name"]: child["children"] for child in root["children"]}
    assert scopes["before"] and scopes["after"]
    assert (timing.source, "proton holds CUPTI" in timing.not_recorded) == ("events", True)
    assert gpuperf.time(square, x, label="later").source == "cupti"

def test_proton_within(gpuperf, tmp_path):
    def profiled(x):
        proton.start(str(tmp_path / "own"))
        y = square(x)
        proton.finalize()
        return y

    gpuperf.check(profiled, torch.randn(64, 64, device=gpuperf.device), expected=square)
    assert "elementwise" in (tmp_path / "own.hatchet").read_text()

def test_torch_before_and_after(gpuperf):
    x = torch.randn(64, 64, device=gpuperf.device)
    assert kernels(square, x) == 1
    assert gpuperf(square, x, expected=square).timing.source == "cupti"
    assert kernels(square, x) == 1

def test_torch_around(gpuperf):
    x = torch.randn(64, 64, device=gpuperf.device)
    with torch.profiler.profile(activities=CUDA) as profiler:
        timing = gpuperf.time(square, x)
    assert any("elementwise" in event.key for event in profiler.key_averages())
    assert (timing.source, "torch.profiler" in timing.not_recorded) == ("events", True)
    assert kernels(square, x) == 1

def test_torch_within(gpuperf):
    def profiled(x):
        with torch.profiler.profile(activities=CUDA):
            return square(x)

    x = torch.randn(64, 64, device=gpuperf.device)
    gpuperf.check(profiled, x, expected=square)
    assert kernels(square, x) == 1

def test_under_nsys(gpuperf):
    x = torch.randn(64, 64, device=gpuperf.device)
    timing = gpuperf(square, x, expected=square).timing
    assert timing.source == "cupti" or "holds CUPTI" in timing.not_recorded
"""
OPTIONS = ("--gpuperf-counters=off", "-ogpuperf_budget=0.05", "-p", "no:cacheprovider")


@pytest.mark.parametrize(
    "name", ["proton_around", "proton_within", "torch_before_and_after", "torch_around", "torch_within"]
)
def test_both_profilers_record(pytester: pytest.Pytester, name: str) -> None:
    pytester.makepyfile(test_own=TESTS)
    result = pytester.runpytest_subprocess("--gpuperf", f"test_own.py::test_{name}", *OPTIONS)
    result.assert_outcomes(passed=1)
    if name.endswith("around"):
        lines = ["*1 test without CUPTI (time by events*", "*holds CUPTI in this process*"]
        result.stdout.fnmatch_lines(lines)


def test_run_under_nsys_times_with_at_most_one_line(pytester: pytest.Pytester) -> None:
    """Do not ask for its report, which the nsys that comes with ncu cannot write."""
    with_ncu = map(str, Path("/opt/nvidia/nsight-compute").glob("*/host/target-linux-x64/nsys"))
    if not (nsys := shutil.which("nsys") or next(with_ncu, "")):
        pytest.skip("needs nsys")
    pytester.makepyfile(test_own=TESTS)
    profile = (nsys, "profile", "--trace=cuda", "--sample=none", "--cpuctxsw=none", "-o", "own")
    run = (sys.executable, "-mpytest", "--gpuperf", "test_own.py::test_under_nsys")
    result = pytester.run(*profile, *run, *OPTIONS)
    result.assert_outcomes(passed=1)
    assert str(result.stdout).count("without CUPTI") <= 1
