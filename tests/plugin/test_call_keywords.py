"""Keywords of `gpuperf(...)`, and tests that measure nothing or are not run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.plugin.recorder import check_keywords
from run_builders import measured, record, run
from run_results import expect, expect_usage_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from runs_of_pytest import AddRecording

CALL = "gpuperf(lambda x: x, 1, expected=lambda x: x, {})"


@pytest.fixture
def call(pytester: pytest.Pytester, replay: None) -> Callable[..., pytest.RunResult]:
    """Run a test with keywords of `gpuperf(...)` against a recording."""

    def run_it(keywords: str, *options: str) -> pytest.RunResult:
        call = CALL.format(keywords)
        pytester.makepyfile(test_k=f"def test_k(gpuperf):\n    {call}\n")
        return pytester.runpytest("--gpuperf", *options)

    return run_it


def named(size: int, *, limit: int = 0) -> int:
    return size + limit


def open_to_all(**more: Any) -> object:
    return more


@pytest.mark.parametrize(
    ("keyword", "right"),
    [
        ("limit", "limits= of gpuperf"),
        ("byte", "bytes= of gpuperf"),
        ("tolerances", "tolerance= of gpuperf"),
        ("expect", "expected= of gpuperf"),
        ("metric", "metrics= of @pytest.mark.gpuperf"),
        ("preset", "preset= of @pytest.mark.gpuperf"),
    ],
)
def test_keyword_like_an_own_one_is_refused(keyword: str, right: str) -> None:
    with pytest.raises(GpuperfError, match=f"the keyword {keyword}=.*expected {right}"):
        check_keywords(open_to_all, [keyword])


@pytest.mark.parametrize("keyword", ["num_warps", "dim", "out", "input", "BLOCK", "dtype", "stride"])
def test_other_keyword_goes_to_the_callable(keyword: str) -> None:
    check_keywords(open_to_all, [keyword])


def test_keyword_that_the_callable_names_is_its_own() -> None:
    check_keywords(named, ["limit"])
    with pytest.raises(GpuperfError, match="kernels="):
        check_keywords(named, ["kernel"])


def test_misspelt_keyword_of_a_call_fails(call: Callable[..., pytest.RunResult]) -> None:
    expect(call("byte=3"), "*gpuperf: the keyword byte=*expected bytes= of gpuperf(...)*", failed=1)


def test_limit_of_a_call_is_judged(call: Callable[..., pytest.RunResult]) -> None:
    call("limits=['time_us <= 6']").assert_outcomes(passed=1)
    expect(call("limits={'time_us': '<= 5'}"), "*time_us 5.30 is above the limit <= 5 of the test*", failed=1)


def test_limit_of_a_call_leaves_other_labels(pytester: pytest.Pytester, add_recording: AddRecording) -> None:
    counters = {"memory_throughput": 77.0}
    add_recording(
        run(record("test_k.py::test_k", fast=measured(5.0, counters), slow=measured(9.0, counters)))
    )
    calls = [CALL.format("label='fast', limits='time_us <= 6'"), CALL.format("label='slow'")]
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    {}\n    {}\n".format(*calls))
    pytester.runpytest("--gpuperf").assert_outcomes(passed=1)


def test_call_has_one_tolerance(call: Callable[..., pytest.RunResult]) -> None:
    call("tolerance=5").assert_outcomes(passed=1)
    result = call("tolerance=0.0")
    expect(result, "*tolerance=0.0 in a call of gpuperf; expected a number of percent*", failed=1)


def test_small_percentage_of_a_call_warns(call: Callable[..., pytest.RunResult]) -> None:
    result = call("limits=['memory_throughput >= 0.6']")
    expect(result, "*'memory_throughput >= 0.6' is at 0.6 %; expected*: 60 for 60 %*", passed=1, warnings=1)
    call("limits=['memory_throughput >= 0.6 %', 'time_us > 1']").assert_outcomes(passed=1, warnings=0)


def test_small_percentage_of_a_marker_warns(pytester: pytest.Pytester, replay: None) -> None:
    mark = "@pytest.mark.gpuperf(limits=['memory_throughput >= 0.6'])"
    test = f"{mark}\ndef test_k(gpuperf):\n    {CALL.format('')}\n"
    pytester.makepyfile(test_k=f"import pytest\n{test}")
    pytester.runpytest("--gpuperf").assert_outcomes(passed=1, warnings=1)


def test_hundred_tests_with_a_failure_fit_on_forty_lines(
    pytester: pytest.Pytester, add_recording: AddRecording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    names = [f"test_k.py::test_k[{number}]" for number in range(100)]
    add_recording(run(*(record(name, main=measured(9.0 if "[7]" in name else 5.0)) for name in names)))
    decorator = "import pytest\n@pytest.mark.parametrize('n', range(100))"
    calls = "gpuperf.time(print); gpuperf.limit('time_us < 6')"
    pytester.makepyfile(test_k=f"{decorator}\ndef test_k(gpuperf, n): {calls}\n")
    result = pytester.runpytest("--gpuperf", "--color=yes")
    result.assert_outcomes(passed=99, failed=1)
    assert len(result.outlines) <= 40
    assert any(line.startswith("\x1b[31m\x1b[1mgpuperf: ") for line in result.outlines)


def test_test_that_measures_nothing_fails(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    pass\n")
    result = pytester.runpytest("--gpuperf")
    expect(result, "*gpuperf: the test measured nothing; expected a call such as gpuperf(*", failed=1)


@pytest.mark.parametrize("options", [(), ("--gpuperf",)])
def test_marker_selects_tests_that_measure(
    pytester: pytest.Pytester, replay: None, options: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_k=f"def test_other(): pass\ndef test_k(gpuperf):\n    {CALL.format('')}\n")
    result = pytester.runpytest("-m", "gpuperf", *options)
    result.assert_outcomes(passed=bool(options), skipped=not options, deselected=1)
    pytester.runpytest("-m", "not gpuperf").assert_outcomes(passed=1, deselected=1)


@pytest.mark.parametrize("option", ["html", "json"])
def test_file_without_gpuperf_is_refused(pytester: pytest.Pytester, option: str) -> None:
    pytester.makepyfile("def test_other(): pass\n")
    result = pytester.runpytest(f"--gpuperf-{option}=r.out")
    expect_usage_error(result, f"*type `pytest --gpuperf --gpuperf-{option}=r.out`*")
