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


def test_call_with_the_code_of_the_baseline_is_not_timed(pytester: pytest.Pytester) -> None:
    run(pytester, 5.0, "--gpuperf-update=new")
    left_out = run(pytester, 6.0, "--gpuperf-changed-only")
    assert left_out.ret == 0
    left_out.stdout.fnmatch_lines("*1 test not timed: the code is the same as in the baseline*")
    changed = run(pytester, 6.0, "--gpuperf-changed-only", code="cd")
    assert changed.ret == 1
    changed.stdout.no_fnmatch_line("*not timed*")
    # A call that is left out returns the time of the baseline.
    assert (pytester.path / "times").read_text() == "5.0 5.0 6.0 "


@pytest.mark.parametrize("options", [(), ("--gpuperf-update=all",)])
def test_call_is_timed_if_nothing_asks_to_leave_it_out(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    run(pytester, 5.0, "--gpuperf-update=new")
    again = run(pytester, 5.01, *options, *(["--gpuperf-changed-only"] if options else []))
    assert again.ret == 0
    again.stdout.no_fnmatch_line("*not timed*")


def limited(pytester: pytest.Pytester, *limits: str) -> None:
    marker = f"@pytest.mark.gpuperf(limits={list(limits)})"
    profiled = SUITE.replace("def test_k", f"{marker}\ndef test_k")
    pytester.makepyfile(
        test_k=f"import pytest\n{profiled}"
        """
    kernel.counters = {"waves": float(os.environ.get("WAVES", "5"))}
    gpuperf.profile(kernel)
"""
    )


def test_test_with_a_limit_on_its_time_is_timed(pytester: pytest.Pytester) -> None:
    limited(pytester, "time_us <= 5.5")
    run(pytester, 5.0, "--gpuperf-update=new")
    assert run(pytester, 6.0, "--gpuperf-changed-only").ret == 1


def test_limit_on_a_counter_is_judged_without_a_time(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(pytester, "waves >= 2")
    run(pytester, 5.0, "--gpuperf-update=new")
    left_out = run(pytester, 6.0, "--gpuperf-changed-only")
    assert left_out.ret == 0
    left_out.stdout.fnmatch_lines("*1 test not timed*")
    monkeypatch.setenv("WAVES", "1")
    broken = run(pytester, 6.0, "--gpuperf-changed-only")
    assert broken.ret == 1
    broken.stdout.fnmatch_lines("*waves*limit >= 2*")


def test_limit_in_the_body_on_a_time_that_is_left_out_is_not_judged(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=f'{SUITE}    gpuperf.limit("time_us <= 5.5")\n')
    run(pytester, 5.0, "--gpuperf-update=new")
    assert run(pytester, 6.0, "--gpuperf-changed-only").ret == 0


def test_unknown_code_is_timed(pytester: pytest.Pytester) -> None:
    run(pytester, 5.0, "--gpuperf-update=new", code="")
    run(pytester, 5.01, "--gpuperf-changed-only", code="").stdout.no_fnmatch_line("*not timed*")
