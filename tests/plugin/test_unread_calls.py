"""Calls that CUPTI cannot read under `--gpuperf-counters=auto`: ncu reads them after the tests."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cupti_runs
import fake_ncu
from run_results import said

pytest.importorskip("xdist")
pytestmark = pytest.mark.usefixtures("forked_runs", "gpu_with_cupti")
KERNELS = """
last = ""

def plain():
    global last
    last = "plain"

def graph():
    global last
    last = "graph"
"""
TESTS = """
import os
import pytest
import kernels

def test_both(gpuperf):
    gpuperf.profile(kernels.plain, label="plain")
    gpuperf.profile(kernels.graph, label="graph")

@pytest.mark.gpuperf(limits={"achieved_occupancy": ">= 75"})
def test_limit(gpuperf):
    gpuperf.profile(kernels.graph)

@pytest.mark.xfail
@pytest.mark.gpuperf(limits={"achieved_occupancy": ">= 75"})
def test_expected(gpuperf):
    gpuperf.profile(kernels.graph)

@pytest.mark.gpuperf(limits={"achieved_occupancy": ">= 75"})
def test_plain(gpuperf):
    gpuperf.profile(kernels.plain)

def test_last(gpuperf):
    gpuperf._state.called = True
    if os.environ.get("ENDS") and not os.environ.get("GPUPERF_PROFILING_PASS"):
        os._exit(1)
"""
ALONE, WORKER = ("-n", "0"), ("-n", "1")


def run(
    pytester: pytest.Pytester,
    *arguments: str,
    refusals: dict[str, int] | None = None,
    ncu: fake_ncu.Behaviour | None = "profiles the program",
    tests: str = TESTS,
    more: str = "",
) -> pytest.RunResult:
    """Run a project with calls that CUPTI can read, and graphs."""
    pytester.makeconftest(cupti_runs.conftest(refusals=refusals, has_ncu=ncu is not None) + more)
    pytester.makepyfile(test_k=tests, kernels=KERNELS)
    path = fake_ncu.install(pytester.path, ncu or "records")
    return pytester.runpytest_subprocess(
        *("-p", "xdist", "-p", "no:cacheprovider", "--gpuperf", f"--override-ini=gpuperf_ncu={path}", "-v"),
        *("--gpuperf-metrics=achieved_occupancy", *arguments),
    )


def profiles(pytester: pytest.Pytester) -> dict[str, dict[str, Any]]:
    (path,) = pytester.path.glob(".gpuperf/runs/*/run.json")
    return {
        f"{test['nodeid'].partition('::')[2]} {label}": one["profile"]
        for test in json.loads(path.read_text())["tests"]
        for label, one in test["measurements"].items()
    }


@pytest.mark.parametrize("process", [ALONE, WORKER], ids=["alone", "worker"])
def test_limit_on_a_graph_fails_in_the_same_run(pytester: pytest.Pytester, process: tuple[str, str]) -> None:
    result = run(pytester, *process, "--junitxml=junit.xml")
    result.assert_outcomes(passed=3, failed=1, xfailed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*achieved_occupancy 60 is below the limit >= 75*"])
    sources = {name: one.get("source", "ncu") for name, one in profiles(pytester).items()}
    assert sources == {
        **dict.fromkeys(("test_both plain", "test_plain main"), "cupti"),
        **dict.fromkeys(("test_both graph", "test_limit main", "test_expected main"), "ncu"),
    }
    why = "the call launches a CUDA graph, whose kernels CUPTI counts as one"
    assert f"ncu read 3 calls after the tests: {why}" in said(result)
    assert "no counters" not in said(result)
    (plan,) = pytester.path.glob(".gpuperf/runs/*/ncu/plan.json")
    names = [nodeid.partition("::")[2] for nodeid in json.loads(plan.read_text())["nodeids"]]
    assert names == ["test_both", "test_limit", "test_expected"]
    junit = (pytester.path / "junit.xml").read_text()
    assert 'failures="1"' in junit
    assert junit.count("gpuperf.main.achieved_occupancy") == 3


def test_held_reports_come_last_and_once(pytester: pytest.Pytester) -> None:
    shown = [line for line in run(pytester).outlines if line.startswith("test_k.py::test_") and "[" in line]
    names = [line.split("::")[1].split()[0] for line in shown]
    assert names == ["test_plain", "test_last", "test_both", "test_limit", "test_expected"]


def test_reports_survive_a_later_test_that_ends_its_process(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENDS", "yes")
    result = run(pytester, *WORKER)
    result.assert_outcomes(passed=2, failed=2, xfailed=1)
    assert profiles(pytester)["test_limit main"]["combined"]["achieved_occupancy"] == 60


@pytest.mark.parametrize(
    ("process", "ncu", "why"),
    [
        (ALONE, None, "; expected a call that launches its kernels one by one; install ncu"),
        (ALONE, "is denied", ", and ncu has not read it: the driver denies hardware counters"),
        (WORKER, "is denied", ", and ncu has not read it: the driver denies hardware counters"),
    ],
    ids=["without ncu", "alone", "worker"],
)
def test_a_call_that_ncu_does_not_read_has_a_reason(
    pytester: pytest.Pytester, process: tuple[str, str], ncu: fake_ncu.Behaviour | None, why: str
) -> None:
    result = run(pytester, *process, ncu=ncu)
    result.assert_outcomes(passed=4, xpassed=1)
    call = "the call launches a CUDA graph, whose kernels CUPTI counts as one"
    assert f"3 tests without counters: test_both, test_limit, test_expected: {call}{why}" in said(result)


@pytest.mark.parametrize("process", [ALONE, WORKER], ids=["alone", "worker"])
def test_verdict_on_counters_of_the_baseline_waits_for_ncu(
    pytester: pytest.Pytester, process: tuple[str, str]
) -> None:
    graph = "import kernels\ndef test_k(gpuperf): gpuperf.profile(kernels.graph)\n"
    run(pytester, "-n0", "--gpuperf-update=all", tests=graph)
    run(pytester, *process, "--gpuperf-strict", tests=graph).assert_outcomes(passed=1, warnings=0)
    denied = run(pytester, *process, ncu="is denied", tests=graph)
    denied.assert_outcomes(passed=1, warnings=1)
    assert "PytestWarning: gpuperf: inconclusive: counters of the baseline were not" in said(denied)
    run(pytester, *process, "--gpuperf-strict", ncu="is denied", tests=graph).assert_outcomes(failed=1)


@pytest.mark.parametrize("process", [ALONE, WORKER], ids=["alone", "worker"])
def test_a_fault_of_this_plugin_costs_no_report(pytester: pytest.Pytester, process: tuple[str, str]) -> None:
    fault = "from pytest_gpuperf.session import late_work\nlate_work._LateWork._run_ncu = lambda *_: {}['']\n"
    result = run(pytester, *process, tests=TESTS, more=fault)
    result.assert_outcomes(passed=4, xpassed=1)
    assert "internal error in pytest_runtestloop: KeyError: ''" in said(result)


def test_an_interrupted_run_loses_no_report(pytester: pytest.Pytester) -> None:
    tests = TESTS.replace("    if os.environ", "    raise KeyboardInterrupt\n    if os.environ")
    result = run(pytester, "-n0", tests=tests)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "4 passed" in said(result) or "3 passed, 1 xpassed" in said(result)
    assert not list(pytester.path.glob(".gpuperf/runs/*/ncu"))


def test_after_an_unexplained_error_ncu_reads_all_calls(pytester: pytest.Pytester) -> None:
    result = run(pytester, "-n0", refusals={"RangeProfilerDecodeData": 999})
    result.assert_outcomes(passed=2, failed=2, xfailed=1)
    assert {one.get("source", "ncu") for one in profiles(pytester).values()} == {"ncu"}
    why = "CUPTI's cuptiRangeProfilerDecodeData failed: 999"
    assert f"ncu read 1 call after the tests: {why}" in said(result)
    assert f"calls after the tests: CUPTI reads nothing more in this process, because of an error: {why}" in (
        said(result)
    )


def test_the_reader_of_the_baseline_chooses_nothing(pytester: pytest.Pytester) -> None:
    tests = "import kernels\ndef test_k(gpuperf):\n    gpuperf.profile(kernels.plain)\n"
    run(pytester, "-n0", "--gpuperf-counters=ncu", "--gpuperf-update=all", tests=tests)
    (path,) = (pytester.path / "baselines").rglob("test_k.json")
    assert "counters_by" not in path.read_text()  # ncu, the default
    for old in pytester.path.glob(".gpuperf/runs/*/*"):
        if old.is_file():
            old.unlink()
    result = run(pytester, "-n0", tests=tests)
    assert profiles(pytester)["test_k main"]["source"] == "cupti"
    assert "1 test with counters of another reader than in the baseline" in said(result)
