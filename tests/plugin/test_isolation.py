"""Tests in a process of their own: the cost of a crash, a hang or a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import fake_ncu
from process_end import has_gone
from run_results import expect, expect_usage_error
from session_builders import run_of

if TYPE_CHECKING:
    from pytest_gpuperf.records import Run

pytest.importorskip("xdist")
pytestmark = pytest.mark.usefixtures("fake_gpu_runs")
RUN = ("-p", "xdist", "-p", "fake_gpu", "--gpuperf", "--gpuperf-counters=off", "-o", "gpuperf_timeout=2")
SUITE = """
import ctypes, os, time
import fake_gpu

def test_first(gpuperf):
    gpuperf.time(lambda: 5.0)

def test_abort(gpuperf):
    os.abort()

def test_plain():
    pass

def test_segmentation_fault(gpuperf):
    ctypes.string_at(0)

def test_exit():
    os._exit(0)

def test_between(gpuperf):
    gpuperf.time(lambda: 6.0)

def test_kill(gpuperf):
    gpuperf.time(lambda: 6.0)
    os.kill(os.getpid(), 9)

def test_illegal_access(gpuperf):
    gpuperf.time(lambda: 6.0)
    fake_gpu.error.append("CUDA error: an illegal memory access was encountered")

def test_hang(gpuperf):
    time.sleep(60)

def test_last(gpuperf):
    gpuperf.time(lambda: 7.0)
"""
WAITS = """
import os, time
from pathlib import Path

def test_first(gpuperf):
    gpuperf.time(lambda: 5.0)

def test_waits(gpuperf):
    Path("pid.new").write_text(str(os.getpid()))
    os.rename("pid.new", "pid")
    time.sleep(60)

def test_last(gpuperf):
    gpuperf.time(lambda: 6.0)
"""


def measured(run: Run) -> list[str]:
    return [test.nodeid.rpartition("::test_")[2] for test in run.tests if not test.failure]


def test_broken_tests_cost_only_themselves(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=SUITE)
    result = pytester.runpytest_subprocess(*RUN)
    expect(result, "collected 10 items", "test_k.py .F.FF.FFF. *", failed=6, passed=4)
    for name, how in {
        "abort": "ended its process by signal 6 (Aborted)",
        "segmentation_fault": "ended its process by signal 11 (Segmentation fault)",
        "exit": "ended its process with exit status 0",
        "kill": "ended its process by signal 9 (Killed)",
        "illegal_access": "broke the GPU: CUDA error: an illegal memory access was encountered",
        "hang": "took more than 2 s (--gpuperf-timeout)",
    }.items():
        result.stdout.fnmatch_lines(
            [
                f"gpuperf: error: test_k.py::test_{name} {how}; the tests after it ran in a new process",
                f"*pytest --gpuperf *test_k.py::test_{name}",
            ]
        )
    # The innermost frames of a crash and of a hang.
    for name, line in {"abort": 8, "hang": 31}.items():
        result.stdout.fnmatch_lines(
            [f'  File "*test_k.py", line {line} in test_{name}', "to find the cause: *"]
        )
    run = run_of(pytester.path)
    assert run.complete
    assert measured(run) == ["first", "between", "last"]
    assert all(0 < test.seconds < 60 for test in run.tests)


def test_passes_run_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_k="""
        import os

        def test_first(gpuperf):
            if "GPUPERF_PROFILING_PASS" not in os.environ:
                os._exit(1)

        def test_last(gpuperf):
            gpuperf.time(lambda: 7.0)
        """
    )
    ncu = fake_ncu.install(pytester.path, "runs the program")
    result = pytester.runpytest_subprocess(*RUN, "--gpuperf-counters=ncu", f"-ogpuperf_ncu={ncu}")
    result.assert_outcomes(failed=1, passed=1)
    assert result.stdout.str().count("profiles 2 tests: done") == 1
    assert not [*pytester.path.rglob("passes-*.msgpack")]


def test_crash_while_collecting_ends_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k="import os\nos._exit(1)\n")
    result = pytester.runpytest_subprocess(*RUN)
    assert result.ret == 3
    result.stdout.fnmatch_lines(
        ["*the process of the tests ended its process with exit status 1 before any*"]
    )


@pytest.mark.parametrize("victims", ["controller", "both", "interrupted"])
def test_finished_tests_are_kept(pytester: pytest.Pytester, victims: str) -> None:
    pytester.makepyfile(test_k=WAITS)
    command = [sys.executable, "-m", "pytest", *RUN, "--gpuperf-timeout=0"]
    with subprocess.Popen(command, start_new_session=True) as process:
        pid = pytester.path / "pid"
        end = time.monotonic() + 20
        while not pid.exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        worker = int(pid.read_text())
        if victims == "interrupted":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.kill()
        if victims == "both":
            os.kill(worker, signal.SIGKILL)
    run = run_of(pytester.path)
    assert not run.complete
    assert measured(run) == ["first"]
    assert has_gone(worker, within_s=20)


def test_maxfail_counts_a_crash(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=SUITE)
    result = pytester.runpytest_subprocess(*RUN, "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1, passed=1)
    assert not run_of(pytester.path).complete


def test_other_plugins_work_in_the_process_of_the_tests(pytester: pytest.Pytester) -> None:
    pytest.importorskip("pytest_benchmark")
    pytester.makepyfile(
        conftest="""
        class Hypothesis:
            def pytest_terminal_summary(self): open("shown", "a").write("hypothesis ")

        def pytest_addoption(pluginmanager): pluginmanager.register(Hypothesis(), "hypothesispytest")

        def pytest_terminal_summary(): open("shown", "a").write("own ")
        """,
        test_k="""
        def test_benchmark(benchmark): benchmark(lambda: 1)

        def test_k(gpuperf): gpuperf.time(lambda: 5.0)
        """,
    )
    options = ("-p", "benchmark", "--junitxml=report.xml", "--benchmark-max-time=0.05")
    result = pytester.runpytest_subprocess(*RUN, *options)
    expect(result, "* benchmark: 1 tests *", "test_benchmark *", passed=2)
    assert 'name="gpuperf.main.time_us" value="5' in (pytester.path / "report.xml").read_text()
    # A conftest.py may write a file in the process of the tests.
    assert sorted((pytester.path / "shown").read_text().split()) == ["hypothesis", "own", "own"]


def test_missing_file_is_one_line(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*RUN, "test_missing.py")
    expect_usage_error(result, "ERROR: file or directory not found: test_missing.py*")


def test_broken_file_ends_the_run_before_its_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf): pass\n", test_broken="import nothing_of_this_name\n")
    result = pytester.runpytest_subprocess(*RUN)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    expect(result, "*Interrupted: 1 error during collection*", errors=1)


@pytest.mark.parametrize("option", ["-s", "--pdb", "-n0", "-pno:xdist"])
def test_options_keep_the_tests_in_this_process(pytester: pytest.Pytester, option: str) -> None:
    pytester.makepyfile(test_k="def test_k(request): assert not hasattr(request.config, 'workerinput')")
    pytester.runpytest_subprocess(*RUN, option).assert_outcomes(passed=1)


def test_own_errors_of_both_processes_are_told_and_the_tests_go_on(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest_gpuperf.plugin.hooks
        from pytest_gpuperf.records.run_store import RunStore

        def broken(*_): raise KeyError("boom")

        RunStore.append = pytest_gpuperf.plugin.hooks.orphans = broken
        """
    )
    pytester.makepyfile(
        test_k="""
        def test_first(gpuperf): gpuperf.time(lambda: 5.0)
        def test_last(gpuperf): gpuperf.time(lambda: 7.0)
        """
    )
    result = pytester.runpytest_subprocess(*RUN)
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "gpuperf: error: test_k.py::test_last was not written *: KeyError: 'boom'",
            "gpuperf: internal error in pytest_runtestloop: KeyError: 'boom' *",
        ]
    )
    assert measured(run_of(pytester.path)) == ["first", "last"]


def test_full_disk_is_one_error(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import os\ndef full(_): raise OSError(28, 'full')\nos.fsync = full\n")
    pytester.makepyfile(test_k="def test_k(gpuperf): gpuperf.time(lambda: 5.0)\ntest_l = test_k\n")
    result = pytester.runpytest_subprocess(*RUN)
    assert (result.ret, result.stdout.str().count("full; make room on its disk")) == (4, 1)
    assert not (pytester.path / ".gpuperf/.gitignore").exists()  # no half of it
