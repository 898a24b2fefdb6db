"""Source of the counters of a run: ncu, CUPTI in the process, or none."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

import cupti_runs
import fake_ncu
from run_results import expect, said

pytestmark = pytest.mark.usefixtures("forked_runs", "gpu_with_cupti")
TEST = """
import pytest

@pytest.mark.gpuperf(limits={"achieved_occupancy": ">= 75", "theoretical_occupancy": ">= 100"})
def test_k(gpuperf):
    gpuperf.profile(print)
"""
NO_CUPTI = "libcupti was not found"


def run(
    pytester: pytest.Pytester,
    counters: str,
    *,
    missing: str = "",
    refusals: dict[str, int] | None = None,
    **marker: object,
) -> pytest.RunResult:
    """Run a test with extra marker arguments, with a CUPTI that is missing or refuses calls."""
    pytester.makeconftest(cupti_runs.conftest(missing=missing, refusals=refusals))
    more = "".join(f", {name}={value!r}" for name, value in marker.items())
    pytester.makepyfile(test_k=TEST.replace('"})', f'"}}{more})'))
    return pytester.runpytest_subprocess("--gpuperf", f"--gpuperf-counters={counters}", "-v")


def profile(pytester: pytest.Pytester) -> dict[str, Any]:
    path = next((pytester.path / ".gpuperf" / "runs").glob("*/run.json"))
    found: dict[str, Any] = json.loads(path.read_text())["tests"][0]["measurements"]["main"]["profile"]
    return found


def test_cupti_judges_limits_without_ncu(pytester: pytest.Pytester) -> None:
    run(pytester, "cupti").assert_outcomes(passed=1)
    found = profile(pytester)
    assert (found["source"], found["cache_control"]) == ("cupti", "all")
    assert found["combined"]["achieved_occupancy"] == 80
    (pytester.path / "test_k.py").write_text(TEST.replace(">= 75", ">= 85"))
    result = pytester.runpytest_subprocess("--gpuperf", "--gpuperf-counters=cupti")
    expect(result, "*achieved_occupancy 80 is below the limit >= 85*", failed=1)


def test_off_reads_nothing_and_auto_without_a_baseline_starts_no_ncu(pytester: pytest.Pytester) -> None:
    run(pytester, "off").assert_outcomes(passed=1)
    assert "unavailable" in profile(pytester)
    pytester.makeconftest(cupti_runs.conftest(has_ncu=True))
    ncu = fake_ncu.install(pytester.path, "is denied")
    shutil.rmtree(pytester.path / ".gpuperf")
    pytester.runpytest_subprocess("--gpuperf", f"-ogpuperf_ncu={ncu}").assert_outcomes(passed=1)
    assert profile(pytester)["source"] == "cupti"
    assert not list((pytester.path / ".gpuperf").rglob("plan.json"))


def test_auto_continues_without_either_and_names_the_reason(pytester: pytest.Pytester) -> None:
    result = run(pytester, "auto", missing=NO_CUPTI)
    result.assert_outcomes(passed=1)
    assert "combined" not in profile(pytester)
    text = said(result)
    why = (
        "no counters: ncu was found neither on PATH nor in the CUDA installation, and libcupti was not found;"
    )
    assert why in text
    assert "achieved_occupancy was not measured, so the limit >= 75 of the test is not judged" in text


def test_auto_and_replay_continue_if_cupti_refuses(pytester: pytest.Pytester) -> None:
    result = run(pytester, "auto", refusals={"RangeProfilerEnable": 35})
    result.assert_outcomes(passed=1)
    assert "1 test without counters: test_k: the driver denies hardware counters to this user" in said(result)
    (recorded,) = (pytester.path / ".gpuperf" / "runs").iterdir()
    replayed = pytester.runpytest_subprocess("--gpuperf", f"--gpuperf-replay={recorded.name}", "-v")
    replayed.assert_outcomes(passed=1)
    assert "1 test without counters: test_k: the driver denies" in said(replayed)


def test_auto_fails_a_test_without_matching_kernels(pytester: pytest.Pytester) -> None:
    result = run(pytester, "auto", kernels="gemm")
    result.assert_outcomes(failed=1)
    assert "for the regex 'gemm'; these ran: square_kernel" in said(result)


def test_refusal_fails_the_test(pytester: pytest.Pytester) -> None:
    result = run(pytester, "cupti", refusals={"RangeProfilerEnable": 35})
    result.assert_outcomes(failed=1)
    assert "the driver denies hardware counters to this user" in said(result)


@pytest.mark.parametrize(("counters", "missing"), [("ncu", ""), ("cupti", NO_CUPTI)])
def test_missing_source_fails_the_test(pytester: pytest.Pytester, counters: str, missing: str) -> None:
    result = run(pytester, counters, missing=missing)
    expect(result, f"*--gpuperf-counters={counters}, but *was *found*", failed=1)
