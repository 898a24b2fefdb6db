from __future__ import annotations

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from judging import baseline, verdict
from pytest_gpuperf.judge.result import Status, TestResult
from pytest_gpuperf.records import (
    Conditions,
    Correctness,
    LaunchedCode,
    Measurement,
    OtherTime,
    Settlement,
    Timing,
    Verification,
)
from pytest_gpuperf.report.notices import notices, undecided
from pytest_gpuperf.report.rows import Summary
from report_examples import ENVIRONMENT, RECORDED, profile, result, timing
from run_builders import measured, record


def notices_of(
    results: list[TestResult], counters_unavailable: str = "", *, replayed: bool, updated: bool = False
) -> list[str]:
    source = RECORDED if replayed else None
    return notices(Summary(results, ENVIRONMENT, source, counters_unavailable, updated))


def timed(name: str, measured: Timing) -> TestResult:
    return result(f"suites/test_a.py::{name}", measurements={"main": Measurement(timing=measured)})


def test_missing_counters_are_named_once_per_session() -> None:
    without = result(measurements={"main": Measurement(profile=profile(metrics={}, unavailable="no ncu"))})
    assert notices_of([without, without], "no ncu", replayed=False) == ["no counters: no ncu"]


def test_missing_counters_are_grouped_by_reason() -> None:
    without = result(measurements={"main": Measurement(profile=profile(metrics={}, unavailable="no match"))})
    assert notices_of([without, result()], "", replayed=False) == [
        "1 test without counters: test_square: no match"
    ]


def test_tests_without_cupti_are_in_one_line() -> None:
    why = "a session of Triton's proton holds CUPTI in this process"
    held = Measurement(
        timing=replace(
            timing(), other=OtherTime(not_recorded=why), verification=Verification(other_values=True)
        ),
        profile=profile(metrics={}, unavailable=f"{why}; measure without it"),
        code=LaunchedCode(unavailable=why),
    )
    assert notices_of([result(measurements={"main": held})], replayed=False) == [
        "1 test without CUPTI (time by events, counters only by ncu, code of kernels unknown): "
        f"test_square: {why}"
    ]


def test_doubtful_measurements_are_named_with_their_reason() -> None:
    waits = replace(timing(), mode="kernels", not_captured="it synchronises")
    dull = Measurement(correctness=Correctness(passed=True, low_signal="the reference is all zero"))
    results = [
        timed("test_fine", replace(timing(), verification=Verification(other_values=True))),
        timed("test_unsteady", timing(steady=False)),
        timed("test_neighbour", timing(conditions=Conditions(other_processes=1))),
        timed("test_throttled", timing(conditions=Conditions(throttle_reasons=("sw_power_cap",)))),
        timed("test_queued", replace(timing(), mode="queued", not_captured="it synchronises")),
        timed("test_asked_for", replace(timing(), mode="queued")),
        timed("test_waits", waits),
        timed("test_waits_too", waits),
        timed(
            "test_host",
            replace(waits, mode="host", other=OtherTime(not_recorded="torch.profiler holds CUPTI")),
        ),
        timed("test_random", replace(timing(), verification=Verification(not_verified="it draws numbers"))),
        result("suites/test_a.py::test_dull", measurements={"main": dull}),
    ]
    assert "\n".join(notices_of(results, replayed=False)) == snapshot("""\
1 test timed with other processes on the GPU: test_neighbour
1 test timed while the clocks were held back (sw_power_cap): test_throttled
1 test timed before the time was steady: test_unsteady
4 tests timed without a CUDA graph, -v tells why: test_queued, test_waits, test_waits_too and 1 more
1 test timed without verified outputs: test_random: it draws numbers
1 test with a reference that tells little: test_dull: the reference is all zero\
""")


def test_throttle_reason_at_full_clock_is_ignored() -> None:
    capped = Conditions(throttle_reasons=("sw_power_cap",), max_sm_clock_mhz=1980)
    held = replace(timing(conditions=capped), blocks_mhz=(1400.0,))
    full = replace(timing(conditions=capped), blocks_mhz=(1975.0,))
    line = "1 test timed while the clocks were held back (sw_power_cap): test_x"
    assert notices_of([timed("test_x", held), timed("test_y", full)], "", replayed=False) == [line]
    # Older runs do not have the highest clock, and NVML's own reading lags too.
    older = Conditions(throttle_reasons=("sw_power_cap",), sm_clock_mhz=1530)
    held, full = (replace(each, conditions=older) for each in (held, full))
    assert notices_of([timed("test_x", held), timed("test_y", full)], "", replayed=False) == [line]


def test_accepted_tests_do_not_lack_a_baseline() -> None:
    assert notices_of([result(status=Status.NEW)], "", replayed=False, updated=True) == []


def test_several_regressions_can_be_accepted_one_by_one() -> None:
    worse = [result(f"t.py::test_{name}", Status.REGRESSED, line="slower") for name in "ab"]
    line = (
        "2 tests regressed: gpuperf baseline accept takes over all, "
        "pytest --gpuperf --gpuperf-update=changed NODEID only some"
    )
    assert line in notices_of(worse, replayed=False)
    assert line not in notices_of(worse[:1], replayed=False)


@pytest.mark.parametrize("reason", ["", "old code is timed on one GPU only, and its ranks run on several"])
def test_run_that_could_settle_is_suggested_only_if_it_could(reason: str) -> None:
    impossible = Settlement(how="impossible", reason=reason, sessions=("r",)) if reason else None
    found = verdict(record(main=replace(measured(5.84), settlement=impossible)), baseline())
    (line,) = undecided([replace(found, replayed=True)])
    assert line.endswith("not decided") is bool(reason)
