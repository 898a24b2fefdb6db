"""`--gpuperf-sanitize` as a user sees it, with a fake GPU and a fake compute-sanitizer."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import pytest

import fake_sanitizer
from gpu_locks import GPU
from pytest_gpuperf.measure.device.gpu_lock import GpuLock
from pytest_gpuperf.records import SanitizerResult
from pytest_gpuperf.records.run_store import load_run
from run_results import expect_usage_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_gpuperf.records import Run

pytestmark = pytest.mark.usefixtures("forked_runs")
WITH_TORCH = """
from importlib import import_module

# `check` needs the functions of torch and the first calls that these modules keep.
del sys.modules["pytest_gpuperf.measure.device.originals"], sys.modules["pytest_gpuperf.measure.first_calls"]
import_module("pytest_gpuperf.measure.device.originals").Originals = lambda _: None
"""
TESTS = """
import torch
from functools import partial
from kernels import report

def square(x, kernel="", ran=None):
    if kernel:
        report(kernel, threads=2)
    return x * x

def test_right(gpuperf):
    gpuperf.check(square, torch.ones(3), expected=torch.square)

def test_wrong(gpuperf):
    print("the body has run")
    gpuperf.check(partial(square, kernel="scale"), torch.ones(3), expected=torch.square)
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create a project with a fake GPU, and a fake compute-sanitizer on PATH."""
    name = f"GPU-{uuid.uuid4()}"
    pytester.makeconftest(GPU.format(uuid=name) + WITH_TORCH)
    fake_sanitizer.make_project(pytester.path)
    fake_sanitizer.install(pytester.path)
    monkeypatch.setenv("PATH", f"{pytester.path}{os.pathsep}{os.environ['PATH']}")
    pytester.makepyfile(test_k=TESTS)
    yield pytester.path
    GpuLock(name)._path().unlink(missing_ok=True)


def gpuperf(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("--gpuperf", "-p", "no:cacheprovider", *arguments)


def last_run(project: Path) -> Run:
    return load_run(max((project / ".gpuperf" / "runs").glob("*/run.json")))


def test_errors_fail_their_test_and_are_replayed(pytester: pytest.Pytester, project: Path) -> None:
    result = gpuperf(pytester, "--gpuperf-sanitize=memcheck", "-rA")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "gpuperf: compute-sanitizer 2025.3.1.0 (memcheck) runs 2 tests: done in *",
            "gpuperf: memcheck: Invalid __global__ write of size 4 bytes in scale (k.py:12) by thread "
            "(0,0,0) in block (3,0,0)",
            "    address 0x7f8c2a000190 is out of bounds and is 1 bytes after the nearest allocation at *",
            "    2 of this kind at this place",
            "gpuperf: compute-sanitizer 2025.3.1.0 (memcheck): 1 without errors, 1 with errors",
        ]
    )
    assert "the body has run" not in result.stdout.str()
    right, wrong = last_run(project).tests
    assert right.sanitizer == SanitizerResult(tool="memcheck", version="2025.3.1.0")
    assert right.measurements["main"].correctness is not None
    assert wrong.sanitizer is not None
    assert (wrong.sanitizer.count, wrong.sanitizer.hits[0].kernel) == (2, "scale")
    assert wrong.measurements == {}

    (project / "conftest.py").unlink()
    again = gpuperf(pytester, "--gpuperf-replay=latest")
    again.assert_outcomes(passed=1, failed=1)
    again.stdout.fnmatch_lines(["*memcheck: Invalid __global__ write of size 4 bytes in scale (k.py:12)*"])


def test_unchecked_test_does_not_pass(pytester: pytest.Pytester, project: Path) -> None:
    pytester.makepyfile(
        test_k="""
        import os
        import pytest

        def test_crash(gpuperf):
            os._exit(3)

        def test_skips(gpuperf):
            pytest.skip("no time")

        def test_skips_there(gpuperf):
            if "GPUPERF_SANITIZING_PASS" in os.environ:
                pytest.skip("no time")

        @pytest.mark.xfail(strict=True)
        def test_expected(gpuperf):
            assert False
        """
    )
    result = gpuperf(pytester, "--gpuperf-sanitize=synccheck")
    result.assert_outcomes(failed=2, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "gpuperf: synccheck did not check this test: the process ended with exit status 3 in it; see *",
            "gpuperf: synccheck did not check this test: its call ended with Skipped: no time; see *",
        ]
    )


def test_failed_tool_fails_the_run_after_tests(pytester: pytest.Pytester, project: Path) -> None:
    fake_sanitizer.install(project, "refuses")
    result = gpuperf(pytester, "--gpuperf-sanitize=memcheck")
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(
        ["gpuperf: error: compute-sanitizer 2025.3.1.0 (memcheck): *says: Error: Device not supported*"]
    )
    assert [test.sanitizer for test in last_run(project).tests] == [None, None]


def test_without_the_tool_nothing_runs(pytester: pytest.Pytester, project: Path) -> None:
    (project / "compute-sanitizer").unlink()
    with (project / "conftest.py").open("a") as stream:
        stream.write(
            "import pytest_gpuperf.processes.cuda_toolkit as cuda_toolkit\n"
            "cuda_toolkit.toolkits = lambda: []\n"
        )
    result = gpuperf(pytester, "--gpuperf-sanitize=memcheck")
    expect_usage_error(result, "ERROR: gpuperf: compute-sanitizer was found neither on PATH nor in a CUDA*")


def test_ini_key_sanitizes(pytester: pytest.Pytester, project: Path) -> None:
    pytester.makeini("[pytest]\ngpuperf_sanitize = initcheck\ngpuperf_counters = ncu\n")
    result = gpuperf(pytester)
    result.assert_outcomes(passed=1, failed=1)
    (folder,) = (project / ".gpuperf" / "runs").glob("*/sanitizer/1")
    assert "initcheck" in (folder / "arguments").read_text().splitlines()
    assert last_run(project).counters_unavailable == "counters are off (--gpuperf-sanitize=initcheck)"


def test_sanitize_with_against_is_refused(pytester: pytest.Pytester, project: Path) -> None:
    pytester.run("git", "init", "-q")
    pytester.run("git", "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x", "--allow-empty")
    result = gpuperf(pytester, "--gpuperf-sanitize=memcheck", "--gpuperf-against=HEAD")
    expect_usage_error(result, "ERROR: gpuperf: --gpuperf-sanitize=memcheck with --gpuperf-against=HEAD; *")


def test_sanitize_without_a_gpu_is_refused(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf): pass")
    expect_usage_error(
        pytester.runpytest("--gpuperf", "--gpuperf-sanitize=racecheck"),
        "ERROR: gpuperf: --gpuperf-sanitize=racecheck runs kernels, and *; expected a GPU; leave it out*",
    )
