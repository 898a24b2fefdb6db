from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from judging import verdict
from pytest_gpuperf.judge.accuracy import compare_accuracy
from pytest_gpuperf.judge.limits import check_limit, parse_limit
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records import Accuracy, Correctness, Measurement
from pytest_gpuperf.records.baseline import MeasurementBaseline, TestBaseline
from run_builders import record, timing

KNOWN = Accuracy(
    reference="float64",
    dtype="float32",
    elements=10**6,
    max_ulp=300.0,
    rms_ulp=2.0,
    bits=22.1,
    same_bits=True,
)


def now(rms_ulp: float = 2.0, max_ulp: float = 300.0, **other: Any) -> Accuracy:
    values = {"reference": "float64", "dtype": "float32", "elements": 10**6, "bits": 22.0, **other}
    return Accuracy(rms_ulp=rms_ulp, max_ulp=max_ulp, **values)


def lines(measured: Accuracy, known: Accuracy = KNOWN) -> list[tuple[Status, str]]:
    found = compare_accuracy(measured, known)
    return [(finding.status, finding.line) for finding in found]


@pytest.mark.parametrize("accuracy", [KNOWN, now(2.1), now(0.5), now(2.0, 1000.0), now(2.0, 0.1)])
def test_small_or_better_errors_pass(accuracy: Accuracy) -> None:
    assert lines(accuracy) == []


def test_larger_error_is_a_regression() -> None:
    expected = "rms_ulp 2.20 is worse than the baseline 2 (tolerated: 2.14)"
    assert lines(now(2.2)) == [(Status.REGRESSED, expected)]
    expected = "max_ulp 1300 is worse than the baseline 300 (tolerated: 1204)"
    assert lines(now(2.0, 1300.0)) == [(Status.REGRESSED, expected)]


def of_two(first: float, second: float) -> Accuracy:
    """Return the accuracy of two outputs, the worse one first."""
    one, other = now(first, output="output[0]"), now(second, output="output[1]")
    worse, better = sorted((one, other), key=lambda accuracy: -(accuracy.rms_ulp or 0))
    return replace(worse, others=(better,))


def test_output_that_got_worse_is_found_next_to_a_worse_one() -> None:
    expected = "rms_ulp of output[1] 90 is worse than the baseline 2 (tolerated: 2.14)"
    assert lines(of_two(100.0, 90.0), of_two(100.0, 2.0)) == [(Status.REGRESSED, expected)]
    assert lines(of_two(2.0, 90.0), of_two(100.0, 2.0)) == [(Status.REGRESSED, expected)]
    assert lines(of_two(2.0, 90.0), of_two(100.0, 90.0)) == []


def test_largest_error_of_calls_with_other_bits_is_not_judged() -> None:
    assert lines(now(max_ulp=9000.0, same_bits=False), now(same_bits=False)) == []


def test_few_elements_may_vary_more() -> None:
    assert lines(now(10.0, elements=4), now(2.0, elements=4)) == []
    assert lines(now(20.0, elements=4), now(2.0, elements=4))[0][0] is Status.REGRESSED


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (11.7, "11.7 significant bits are right, in the baseline 22.1"),
        (8.7, "as if factors were rounded to bfloat16, which has 8"),
        (17.0, "17.0 significant bits are right, in the baseline 22.1"),
    ],
)
def test_detail_names_the_type_that_explains_the_error(bits: float, text: str) -> None:
    (finding,) = compare_accuracy(now(2662.0, bits=bits), KNOWN)
    assert text in finding.details[0]
    assert ("rounded" in finding.details[0]) is (bits < 13)


@pytest.mark.parametrize(
    "other",
    [
        {"reference": "float32"},
        {"dtype": "float64"},
        {"dtype": "complex64"},
        {"dtype": "float16", "output": "b"},
    ],
)
def test_errors_of_other_types_are_not_compared(other: dict[str, Any]) -> None:
    ((status, line),) = lines(now(500.0, **other))
    assert status is Status.PASS
    assert line.endswith("the baseline's of float32 against float64: not compared")


@pytest.mark.parametrize(("dtype", "bits"), [("float16", 11), ("bfloat16", 8)])
def test_output_of_a_narrower_type_is_a_regression(dtype: str, bits: int) -> None:
    ((status, line),) = lines(now(dtype=dtype))
    assert status is Status.REGRESSED
    assert line == (f"the output is {dtype} with {bits} significant bits, in the baseline float32 with 24")


def test_missing_error_is_a_warning() -> None:
    (found,) = compare_accuracy(Accuracy(note="no element is a number"), KNOWN)
    assert (found.status, found.doubt, found.line) == (
        Status.PASS,
        True,
        "the accuracy is not known (no element is a number), the baseline's of float32 against float64: "
        "not compared",
    )


def test_other_bits_of_two_calls_are_a_remark() -> None:
    ((status, line),) = lines(now(same_bits=False))
    assert status is Status.PASS
    assert line.startswith("two calls no longer give the same bits")


def test_faster_time_does_not_pay_for_a_larger_error() -> None:
    checked = Correctness(passed=True, accuracy=now(2000.0))
    measured = record(main=Measurement(correctness=checked, timing=timing(1.0)))
    known = TestBaseline(measurements={"main": MeasurementBaseline(accuracy=KNOWN)})
    assert verdict(measured, known).status is Status.REGRESSED


def test_checked_call_without_a_baseline_is_new() -> None:
    assert verdict(record(main=Measurement(correctness=Correctness(passed=True, accuracy=now())))).status is (
        Status.NEW
    )


@pytest.mark.parametrize(
    ("limit", "status", "line"),
    [
        ("max_ulp <= 300 ulp", Status.PASS, ""),
        ("rms_ulp <= 1", Status.LIMIT, "rms_ulp 2 is above the limit <= 1 of the test (baseline 0.500)"),
        ("same_bits == 1", Status.LIMIT, "same_bits 0 is not at the limit == 1 of the test (baseline 0.500)"),
        (
            "error_ratio <= 2",
            Status.INVALID,
            "error_ratio was not measured for the limit <= 2 of the test: "
            "the reference has no output in float32",
        ),
    ],
)
def test_limits_name_errors(limit: str, status: Status, line: str) -> None:
    measured = Measurement(correctness=Correctness(passed=True, accuracy=now(same_bits=False)))
    found = check_limit(parse_limit(limit), measured, source="of the test", baseline=0.5)
    assert (found.status, found.line) == (status, line)


@pytest.mark.parametrize(
    ("checked", "status", "why"),
    [
        (None, Status.INVALID, "the test calls no check()"),
        (Correctness(passed=True), Status.PASS, "max_ulp is not in the recorded check"),
        (
            Correctness(passed=True, accuracy=Accuracy(note="no element is a number")),
            Status.INVALID,
            "no element is a number",
        ),
    ],
)
def test_limit_on_a_missing_error_says_why(checked: Correctness | None, status: Status, why: str) -> None:
    found = check_limit(parse_limit("max_ulp <= 4"), Measurement(correctness=checked))
    assert found.status is status
    assert why in found.line


def test_growth_of_the_largest_error_by_one_ulp_is_always_tolerated() -> None:
    known = msgspec.structs.replace(KNOWN, max_ulp=0.5)  # a factor of 4.01 allows 2.005
    assert lines(now(max_ulp=3.0, same_bits=True), known) == []
    assert [status for status, _ in lines(now(max_ulp=3.01, same_bits=True), known)] == [Status.REGRESSED]


def test_regression_of_the_accuracy_says_where_the_largest_error_is() -> None:
    (found,) = compare_accuracy(now(2.2, 1300.0, max_ulp_index=(3, 4), output="out"), KNOWN)
    assert "the largest error, 1300 ULP, is at [3, 4] of out" in found.details
