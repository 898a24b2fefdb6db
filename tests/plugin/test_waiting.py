"""The wait for a GPU that another run has locked."""

from __future__ import annotations

import signal
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gpu_locks
from gpu_locks import held_elsewhere, let_go
from pytest_gpuperf.measure.device.gpu_lock import GpuLock

if TYPE_CHECKING:
    from collections.abc import Iterator

GPU = f"""
import sys
sys.path.append({str(Path(__file__).parents[1])!r})
import fake_torch
fake_torch.install()
{gpu_locks.GPU}
"""
RUN = ("--gpuperf", "--gpuperf-counters=off")


@pytest.fixture
def gpu(pytester: pytest.Pytester) -> Iterator[str]:
    """Create a project with a fake GPU and a test that measures nothing; yield the GPU's UUID."""
    name = f"GPU-{uuid.uuid4()}"
    pytester.makeconftest(GPU.format(uuid=name))
    pytester.makepyfile(test_k="def test_k(gpuperf): gpuperf._keep('main')\n")
    yield name
    GpuLock(name)._path().unlink(missing_ok=True)


def test_lock_is_held_from_the_passes_to_the_end_of_the_run(pytester: pytest.Pytester, gpu: str) -> None:
    pytester.makeconftest(
        GPU.format(uuid=gpu)
        + f"""
import atexit, os
from pytest_gpuperf.measure.device.gpu_lock import GpuLock
from pytest_gpuperf.session.live_runner import LiveRunner

def show(*_):
    holder = GpuLock({gpu!r}).holder()
    print("held here:", holder and holder.pid == os.getpid())

end = LiveRunner.end
LiveRunner._run_passes = show
LiveRunner.end = lambda runner: [show(), end(runner)]
atexit.register(show)
"""
    )
    result = pytester.runpytest_subprocess(*RUN, "-s")
    result.stdout.fnmatch_lines(["*held here: True", "*held here: True", "held here: None"])
    assert "waiting" not in result.stdout.str()


def test_log_has_two_lines_for_a_wait(pytester: pytest.Pytester, gpu: str) -> None:
    with held_elsewhere(gpu=gpu) as other:
        process = pytester.popen([sys.executable, "-m", "pytest", *RUN])
        lines = until_waiting(process.stdout)
        let_go(other)
        lines += [line.decode() for line in process.stdout]
    begun, ended = [line for line in lines if line.startswith("gpuperf: wait")]
    process.wait()
    waiting = f"gpuperf: waiting for {gpu[:8]}…: pid {other.pid} (pytest) has been measuring for "
    assert begun.startswith(waiting)
    assert ": done in " in ended


def test_ctrl_c_ends_the_wait(pytester: pytest.Pytester, gpu: str) -> None:
    with held_elsewhere(gpu=gpu):
        process = pytester.popen([sys.executable, "-m", "pytest", *RUN])
        until_waiting(process.stdout)
        process.send_signal(signal.SIGINT)
        output = process.stdout.read().decode()
        process.wait()
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "stopped after" in output
    assert "no tests ran" in output


def until_waiting(stream) -> list[str]:  # type: ignore[no-untyped-def]
    """Return the lines up to the message about the wait."""
    lines: list[str] = []
    while not lines or "waiting" not in lines[-1]:
        lines.append(next(stream).decode())
    return lines


@pytest.mark.usefixtures("forked_runs")
def test_nested_run_does_not_wait_for_its_parent(pytester: pytest.Pytester, gpu: str) -> None:
    pytester.makepyfile(
        test_k=f"""
        import subprocess, sys

        def test_k(gpuperf):
            gpuperf._keep("main")
            inner = [sys.executable, "-m", "pytest", *{RUN!r}, "inner/test_inner.py"]
            done = subprocess.run(inner, timeout=60, capture_output=True, text=True)
            assert "1 passed" in done.stdout
        """
    )
    inner = pytester.mkdir("inner")
    (inner / "test_inner.py").write_text("def test_inner(gpuperf): gpuperf._keep('main')\n")
    pytester.runpytest_subprocess(*RUN, "test_k.py").assert_outcomes(passed=1)


@pytest.mark.usefixtures("forked_runs")
def test_run_without_lock_continues_with_a_notice(pytester: pytest.Pytester, gpu: str) -> None:
    path = GpuLock(gpu)._path()
    path.symlink_to(pytester.path / "elsewhere")
    result = pytester.runpytest_subprocess(*RUN)
    result.assert_outcomes(passed=1)
    said = " ".join(result.stdout.str().split())
    assert f"gpuperf: not locked: {path} cannot be locked: it is a symbolic link" in said
    assert "could measure at the same time" in said


def test_a_replay_takes_no_lock(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(
        test_k="""
        import os
        from pytest_gpuperf.measure.device.gpu_lock import HELD_ENV

        def test_k(gpuperf):
            gpuperf._keep("main")
            assert HELD_ENV not in os.environ
        """
    )
    pytester.runpytest("--gpuperf").assert_outcomes(passed=1)
