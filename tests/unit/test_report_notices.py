from __future__ import annotations

import msgspec
import pytest

from pytest_gpuperf.judge.result import Status, TestResult
from pytest_gpuperf.records import Conditions, Correctness, Measurement, Timing, Verification
from pytest_gpuperf.report.notices import notices
from pytest_gpuperf.report.rows import Summary
from report_examples import ENVIRONMENT, RECORDED, profile, result, timing


def notices_of(
    results: list[TestResult], counters_unavailable: str = "", *, replayed: bool, updated: bool = False
) -> list[str]:
    source = RECORDED if replayed else None
    return notices(Summary(results, ENVIRONMENT, source, counters_unavailable, updated))


def timed(name: str, measured: Timing) -> TestResult:
    return result(f"suites/test_a.py::{name}", measurements={"main": Measurement(timing=measured)})


def test_clean_run_has_no_notices() -> None:
    assert notices_of([result()], "", replayed=False) == []


def test_missing_counters_are_named_once_per_session() -> None:
    without = result(measurements={"main": Measurement(profile=profile(metrics={}, unavailable="no ncu"))})
    assert notices_of([without, without], "no ncu", replayed=False) == ["no counters: no ncu"]


def test_missing_counters_are_grouped_by_reason() -> None:
    without = result(measurements={"main": Measurement(profile=profile(metrics={}, unavailable="no match"))})
    assert notices_of([without, result()], "", replayed=False) == ["no counters for test_square: no match"]


@pytest.mark.parametrize(
    ("doubtful", "line"),
    [
        (timing(steady=False), "1 test timed before the time was steady: test_x"),
        (
            timing(conditions=Conditions(other_processes=1)),
            "1 test timed with other processes on the GPU: test_x",
        ),
        (
            timing(conditions=Conditions(throttle_reasons=("sw_power_cap",))),
            "1 test timed while the clocks were held back (sw_power_cap): test_x",
        ),
    ],
)
def test_doubtful_timings_are_named(doubtful: Timing, line: str) -> None:
    assert notices_of([timed("test_x", doubtful), timed("test_y", timing())], "", replayed=False) == [line]


def test_throttle_reason_at_full_clock_is_ignored() -> None:
    capped = Conditions(throttle_reasons=("sw_power_cap",), max_sm_clock_mhz=1980)
    held = msgspec.structs.replace(timing(conditions=capped), blocks_mhz=(1400.0,))
    full = msgspec.structs.replace(timing(conditions=capped), blocks_mhz=(1975.0,))
    line = "1 test timed while the clocks were held back (sw_power_cap): test_x"
    assert notices_of([timed("test_x", held), timed("test_y", full)], "", replayed=False) == [line]
    # Older runs do not have the highest clock, and NVML's own reading lags too.
    older = Conditions(throttle_reasons=("sw_power_cap",), sm_clock_mhz=1530)
    held, full = (msgspec.structs.replace(each, conditions=older) for each in (held, full))
    assert notices_of([timed("test_x", held), timed("test_y", full)], "", replayed=False) == [line]


def test_many_doubtful_timings_are_counted() -> None:
    unsteady = [timed(f"test_{number}", timing(steady=False)) for number in range(1000)]
    assert notices_of(unsteady, "", replayed=False) == [
        "1,000 tests timed before the time was steady: test_0, test_1, test_2 and 997 more"
    ]


def test_queued_timings_are_named_with_the_reason() -> None:
    fell_back = msgspec.structs.replace(timing(), mode="queued", not_captured="it synchronises")
    asked_for = msgspec.structs.replace(timing(), mode="queued", not_captured="")
    results = [timed("test_x", fell_back), timed("test_y", asked_for), timed("test_z", timing())]
    assert notices_of(results, "", replayed=False) == [
        "1 test timed queued because it cannot be captured: test_x: it synchronises"
    ]


def test_calls_timed_by_their_kernels_are_named_with_the_reason() -> None:
    waits = msgspec.structs.replace(timing(), mode="kernels", not_captured="it synchronises")
    no_cupti = msgspec.structs.replace(waits, mode="host", not_recorded="torch.profiler holds CUPTI")
    results = [timed("test_x", waits), timed("test_y", waits), timed("test_z", no_cupti)]
    assert notices_of(results, "", replayed=False) == [
        "2 tests timed by kernels because they cannot be captured: test_x, test_y: it synchronises",
        "1 test timed by the host's clock because it cannot be captured: test_z: it synchronises; CUPTI: "
        "torch.profiler holds CUPTI",
    ]


def test_accepted_tests_do_not_lack_a_baseline() -> None:
    assert notices_of([result(status=Status.NEW)], "", replayed=False, updated=True) == []


@pytest.mark.parametrize(
    ("replayed", "command"),
    [(False, "pytest --gpuperf --gpuperf-update=new"), (True, "gpuperf baseline accept RUN")],
)
def test_new_tests_are_counted_with_the_next_command(replayed: bool, command: str) -> None:
    [line] = notices_of([result(status=Status.NEW)], "", replayed=replayed)
    assert line.startswith("1 test without a baseline")
    assert command in line


def test_outputs_that_were_not_verified_are_named_with_the_reason() -> None:
    fine = msgspec.structs.replace(timing(), verification=Verification(other_values=True))
    odd = msgspec.structs.replace(timing(), verification=Verification(not_verified="it draws numbers"))
    assert notices_of([timed("test_x", odd), timed("test_y", fine)], replayed=True) == [
        "1 test timed without verified outputs: test_x: it draws numbers"
    ]


def test_references_that_tell_little_are_named() -> None:
    dull = Measurement(correctness=Correctness(passed=True, low_signal="the reference is all zero"))
    assert notices_of([result(measurements={"main": dull})], replayed=True) == [
        "1 test with a reference that tells little: test_square: the reference is all zero"
    ]
