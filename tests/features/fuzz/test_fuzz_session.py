"""`gpuperf.fuzz` in a replay: a recorded search is judged again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.records import Fuzzing, Measurement
from run_builders import record, run
from run_results import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from runs_of_pytest import AddRecording

CODE = """
def boom(case):
    raise AssertionError("nothing is launched in a replay")

def test_k(gpuperf):
    assert gpuperf.fuzz(boom, expected=boom, shapes="(m,n)", dtypes=(), inputs=boom).cases > 100
"""
FAILED: dict[str, Any] = {
    "passed": False,
    "found_after": 7,
    "case": "m=1, n=129, float32",
    "failure": "boom fails for m=1, n=129, float32",
}


@pytest.fixture
def replayed(pytester: pytest.Pytester, add_recording: AddRecording) -> Callable[..., pytest.RunResult]:
    def replay(**fuzz: Any) -> pytest.RunResult:
        found = Fuzzing(**{"passed": True, "cases": 1312, "seconds": 5.04, **fuzz}) if fuzz else None
        add_recording(run(record("test_k.py::test_k", main=Measurement(fuzz=found))))
        pytester.makepyfile(test_k=CODE)
        return pytester.runpytest("--gpuperf")

    return replay


def test_recorded_search_is_shown(replayed: Callable[..., pytest.RunResult]) -> None:
    expect(replayed(refused=3), "test_k*pass", "*fuzz: 1,312 cases in 5.0 s, 3 refused", passed=1)


def test_failed_search_fails_again(replayed: Callable[..., pytest.RunResult]) -> None:
    expect(
        replayed(**FAILED),
        "E*Failed: boom fails for m=1, n=129, float32",
        "test_k*wrong",
        "*fuzz: 1,312 cases in 5.0 s, case 7 failed; the smallest is m=1, n=129, float32",
        failed=1,
    )


def test_search_that_was_not_recorded_is_skipped(replayed: Callable[..., pytest.RunResult]) -> None:
    replayed().stdout.fnmatch_lines(["*not recorded on NVIDIA H200; `gpuperf record` adds it*"])
