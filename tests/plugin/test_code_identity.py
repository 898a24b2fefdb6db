"""Code identity in whole runs, with a fake GPU."""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from against_project import PLUGIN, TESTS
from pytest_gpuperf.baseline.expectations import Expectations
from pytest_gpuperf.records import LaunchedCode, LaunchedKernel
from pytest_gpuperf.records.baseline import MeasurementBaseline, Session, TimeBaseline

if TYPE_CHECKING:
    from pytest_gpuperf.records import TimingMode

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
    not_timed = run(pytester, 6.0, "--gpuperf-changed-only")
    assert not_timed.ret == 0
    not_timed.stdout.fnmatch_lines("*1 test not timed: the code is the same as in the baseline*")
    changed = run(pytester, 6.0, "--gpuperf-changed-only", code="cd")
    assert changed.ret == 1
    changed.stdout.no_fnmatch_line("*not timed*")
    # A call that is not timed returns the time of the baseline.
    assert (pytester.path / "times").read_text() == "5.0 5.0 6.0 "


@pytest.mark.parametrize("options", [(), ("--gpuperf-update=all",)])
def test_call_is_timed_if_nothing_asks_to_leave_it_out(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    run(pytester, 5.0, "--gpuperf-update=new")
    again = run(pytester, 5.01, *options, *(["--gpuperf-changed-only"] if options else []))
    assert again.ret == 0
    again.stdout.no_fnmatch_line("*not timed*")


def with_limits(pytester: pytest.Pytester, *limits: str, before: str = "", after: str = "") -> None:
    marker = f"@pytest.mark.gpuperf(limits={list(limits)})\n"
    body = SUITE.replace("def test_k(gpuperf):\n", f"{marker}def test_k(gpuperf):\n{before}")
    counters = """
    kernel.counters = {"waves": float(os.environ.get("WAVES", "5"))}
    gpuperf.profile(kernel)
"""
    pytester.makepyfile(test_k=f"import pytest\n{body}{counters}{after}")


LATER = "    gpuperf.time(kernel, label='other')\n    gpuperf.limit('time_us <= 5.5')\n"


@pytest.mark.parametrize("limit", ["time_us <= 5.5", "gb_per_s >= 1"])
def test_test_with_a_limit_on_its_time_is_timed(pytester: pytest.Pytester, limit: str) -> None:
    with_limits(pytester, limit)
    suite = (pytester.path / "test_k.py").read_text()
    (pytester.path / "test_k.py").write_text(suite.replace("time(kernel)", "time(kernel, bytes=5000)"))
    run(pytester, 5.0, "--gpuperf-update=new")
    run(pytester, 5.01, "--gpuperf-changed-only").stdout.no_fnmatch_line("*not timed*")


def test_test_that_states_a_limit_before_its_time_is_timed(pytester: pytest.Pytester) -> None:
    with_limits(pytester, before="    gpuperf.limit('time_us <= 5.5')\n")
    run(pytester, 5.0, "--gpuperf-update=new")
    assert run(pytester, 6.0, "--gpuperf-changed-only").ret == 1


def test_test_with_a_limit_on_its_time_in_the_baseline_is_timed(pytester: pytest.Pytester) -> None:
    with_limits(pytester)
    run(pytester, 5.0, "--gpuperf-update=new")
    (path,) = (pytester.path / "baselines").rglob("test_k.json")
    stored = json.loads(path.read_text())
    stored["tests"]["test_k.py::test_k"]["limits"] = {"time_us": "<= 5.5"}
    path.write_text(json.dumps(stored))
    assert run(pytester, 6.0, "--gpuperf-changed-only").ret == 1


def test_limit_on_a_counter_is_judged_without_a_time(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_limits(pytester, "waves >= 2")
    run(pytester, 5.0, "--gpuperf-update=new")
    not_timed = run(pytester, 6.0, "--gpuperf-changed-only")
    assert not_timed.ret == 0
    not_timed.stdout.fnmatch_lines("*1 test not timed*")
    monkeypatch.setenv("WAVES", "1")
    broken = run(pytester, 6.0, "--gpuperf-changed-only")
    assert broken.ret == 1
    broken.stdout.fnmatch_lines("*waves*limit >= 2*")


def test_counter_that_is_lacking_fails_a_test_without_a_time(pytester: pytest.Pytester) -> None:
    with_limits(pytester)
    run(pytester, 5.0, "--gpuperf-update=new")
    with_limits(pytester, "dram_bytes >= 2")
    lacking = run(pytester, 5.0, "--gpuperf-changed-only")
    assert lacking.ret == 1
    lacking.stdout.fnmatch_lines("*dram_bytes was not measured*")


def test_limit_on_times_is_not_judged_if_a_call_was_not_timed(pytester: pytest.Pytester) -> None:
    """The other one may have a limit made of the baseline's time."""
    with_limits(pytester)
    run(pytester, 5.0, "--gpuperf-update=new")
    with_limits(pytester, after=LATER)
    mixed = run(pytester, 6.0, "--gpuperf-changed-only", "-v")
    assert mixed.ret == 0
    mixed.stdout.fnmatch_lines("*main was not timed, so the limit time_us <= 5.5 of the test is not judged*")


def test_call_is_timed_if_its_baseline_has_another_mode(pytester: pytest.Pytester) -> None:
    run(pytester, 5.0, "--gpuperf-update=new")
    pytester.makepyfile(test_k=SUITE.replace("time(kernel)", "time(kernel, mode='cold')"))
    run(pytester, 5.0, "--gpuperf-changed-only").stdout.no_fnmatch_line("*not timed*")


def test_call_that_is_not_timed_has_the_time_of_the_baseline(pytester: pytest.Pytester) -> None:
    whole = SUITE.replace("gpuperf.time(kernel).time_us", "gpuperf(kernel, expected=kernel).timing.time_us")
    pytester.makepyfile(test_k=whole.replace("kernel.code", "kernel.counters = {}\nkernel.code"))
    run(pytester, 5.0, "--gpuperf-update=new")
    assert run(pytester, 6.0, "--gpuperf-changed-only").ret == 0
    assert (pytester.path / "times").read_text() == "5.0 5.0 "


def test_run_that_did_not_time_a_call_can_be_replayed(pytester: pytest.Pytester) -> None:
    run(pytester, 5.0, "--gpuperf-update=new")
    run(pytester, 6.0, "--gpuperf-changed-only")
    replayed = run(pytester, 6.0, "--gpuperf-replay=latest")
    assert replayed.ret == 0
    replayed.stdout.fnmatch_lines("*1 test not timed*")


@pytest.mark.parametrize("change", ["no baseline", "other code", "other mode"])
def test_replay_takes_no_time_of_other_code_or_another_mode(pytester: pytest.Pytester, change: str) -> None:
    run(pytester, 5.0, "--gpuperf-update=new")
    run(pytester, 6.0, "--gpuperf-changed-only")
    (path,) = (pytester.path / "baselines").rglob("test_k.json")
    if change == "other mode":
        pytester.makepyfile(test_k=SUITE.replace("time(kernel)", "time(kernel, mode='cold')"))
    elif change == "other code":
        path.write_text(path.read_text().replace('"ab"', '"cd"'))
    else:
        path.unlink()
    replayed = run(pytester, 6.0, "--gpuperf-replay=latest", "-rs")
    replayed.stdout.fnmatch_lines("*run did not time*the baseline has no time of this code and mode*")


def test_second_time_of_a_call_that_was_not_timed_is_refused(pytester: pytest.Pytester) -> None:
    run(pytester, 5.0, "--gpuperf-update=new")
    pytester.makepyfile(test_k=f"{SUITE}    gpuperf.time(kernel)\n")
    twice = run(pytester, 5.0, "--gpuperf-changed-only")
    assert twice.ret == 1
    twice.stdout.fnmatch_lines("*has measured timing under the label 'main' already*")


@pytest.mark.parametrize(
    ("asked", "known", "not_timed"),
    [
        ("hot", "hot", True),
        ("cold", "cold", True),
        ("auto", "kernels", True),
        ("auto", "cold", False),
        ("hot", "cold", False),
        ("auto", None, False),
    ],
)
def test_call_is_not_timed_if_the_baseline_has_a_time_of_its_mode(
    asked: str, known: TimingMode | None, *, not_timed: bool
) -> None:
    code = LaunchedCode(kernels=(LaunchedKernel(name="k", code="ab"),), driver="580.1")
    sessions = (Session(run="r", time_us=5.0),)
    time = TimeBaseline(mode=known, sessions=sessions) if known is not None else None
    baseline = MeasurementBaseline(time=time, code=code)
    expected = SimpleNamespace(measurement=lambda *_: baseline)
    found = Expectations.time_of_same_code(cast("Any", expected), "t", "main", code, asked)
    assert found is (time if not_timed else None)


def test_unknown_code_is_timed(pytester: pytest.Pytester) -> None:
    run(pytester, 5.0, "--gpuperf-update=new", code="")
    run(pytester, 5.01, "--gpuperf-changed-only", code="").stdout.no_fnmatch_line("*not timed*")


def test_own_suites_work_with_the_times_of_the_baseline(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They compare times of calls with each other, and read times of measurements."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    suites = [f"suites/test_{name}.py" for name in ("tensor_core_gemm", "memory_kernels", "parts")]
    monkeypatch.chdir(TESTS.parent)
    replay = ("-ogpuperf_replay_gpu=nvidia-h100-80gb-hbm3", "-p", "no:cacheprovider", *suites)
    found = pytester.run(sys.executable, "-m", "pytest", "--gpuperf", "--gpuperf-changed-only", *replay)
    assert found.ret == 0
    found.stdout.fnmatch_lines("* tests not timed: *")
