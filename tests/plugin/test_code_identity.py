"""Code identity in whole runs, with a fake GPU."""

from __future__ import annotations

import os

import pytest

from against_project import PLUGIN, TESTS

pytestmark = pytest.mark.usefixtures("forked_runs")

RUN = ("-p", "fake_gpu", "--gpuperf", "--gpuperf-counters=off")
SUITE = """
import os
from pytest_gpuperf.records import LaunchedCode, LaunchedKernel

def kernel():
    return float(os.environ["TIME_US"])

kernel.code = LaunchedCode(kernels=(LaunchedKernel(name="k", code=os.environ["CODE"]),), driver="580.1")

def test_k(gpuperf):
    with open("times", "a") as file:
        file.write(f"{gpuperf.time(kernel).time_us} ")
"""


@pytest.fixture(autouse=True)
def _suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("temporary")))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (TESTS, PLUGIN))))
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile(test_k=SUITE)


def run(pytester: pytest.Pytester, time_us: float, *options: str, code: str = "ab") -> pytest.RunResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIME_US", str(time_us))
        patch.setenv("CODE", code)
        return pytester.runpytest_subprocess(*RUN, *options)


def test_slower_time_of_the_same_code_fails_in_the_second_run(pytester: pytest.Pytester) -> None:
    assert run(pytester, 5.0, "--gpuperf-update=new").ret == 0
    first = run(pytester, 5.5)
    assert first.ret == 0
    first.stdout.fnmatch_lines(
        "*1 test slower or faster with the same code as in the baseline: test_k; look at the *"
    )
    assert run(pytester, 5.5).ret == 1


def test_slower_time_of_other_code_fails_at_once(pytester: pytest.Pytester) -> None:
    run(pytester, 5.0, "--gpuperf-update=new")
    slower = run(pytester, 5.5, code="cd")
    assert slower.ret == 1
    slower.stdout.fnmatch_lines("*k: other code*")


LATER = "    gpuperf.time(kernel, label='other')\n    gpuperf.limit('time_us <= 5.5')\n"
