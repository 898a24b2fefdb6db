"""What a baseline can take from several runs, test by test."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pytest_gpuperf.baseline.gather import Gathered, gather, in_order
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import GpuInfo, Measurement, Profile, TestRecord, Trace
from run_builders import measured, profile, queued, record, run, timing


def gathered(*tests: TestRecord) -> Gathered:
    """Gather one test from a run for each record."""
    (found,) = gather([run(test, id=f"run {number}") for number, test in enumerate(tests)])
    return found


def test_runs_of_two_models_are_not_mixed() -> None:
    other = GpuInfo(name="NVIDIA A100", slug="nvidia-a100", uuid="GPU-2")
    with pytest.raises(GpuperfError, match="several models of GPU: nvidia-a100, nvidia-h200"):
        in_order([run(), run(gpu=other)])


def test_runs_are_in_the_order_of_their_start_and_each_is_there_once() -> None:
    late, early = run(id="a"), run(id="b", started_at="2026-11-19T17:30:12+00:00")
    assert in_order([late, early, late]) == [early, late]


def test_newest_trace_is_taken() -> None:
    traces = [Measurement(trace=Trace(launches=number)) for number in (3, 4)]
    found = gathered(*(record(main=one) for one in (*traces, measured(5.0))))
    assert found.labels["main"].trace == Trace(launches=4)


def test_wrong_output_in_one_run_refuses_all() -> None:
    found = gathered(record(main=measured(correct=False)), record(main=measured()))
    assert (found.refused, found.labels) == ((("", "the output is wrong in 1 of 2 runs"),), {})


def test_failed_run_leaves_the_times_of_the_others() -> None:
    found = gathered(record(main=measured(9.0), failure="AssertionError"), record(main=measured(5.0)))
    assert found.refused == (("", "the test failed: AssertionError in 1 of 2 runs"),)
    assert [one.time_us for _, one in found.labels["main"].times] == [5.0]


def test_only_failed_run_gives_nothing() -> None:
    found = gathered(replace(record(failure="AssertionError"), tolerance_pct=3.0))
    assert found == Gathered(record().nodeid, (("", "the test failed: AssertionError"),))


def test_call_that_was_only_checked_has_nothing_to_take() -> None:
    assert gathered(record(main=measured(5.0), other=measured(None))).labels.keys() == {"main"}


@pytest.mark.parametrize(("combined", "taken"), [({}, 0), ({"instructions": 2.0}, 1)])
def test_counters_are_those_of_the_newest_run_that_read_any(combined: dict[str, float], taken: int) -> None:
    found = gathered(
        record(main=Measurement(profile=profile({"instructions": 1.0}))),
        record(main=Measurement(profile=profile(combined))),
    ).labels["main"]
    assert found.profile == profile({"instructions": 1.0 + taken})
    assert found.profile_run == f"run {taken}"


def test_profile_without_counters_has_no_values() -> None:
    found = gathered(record(main=Measurement(profile=Profile(unavailable="no ncu"))))
    assert found.labels == {}
    assert found.refused == (("main", "neither a time nor counters were measured"),)


def test_time_of_another_mode_is_not_mixed_in() -> None:
    found = gathered(record(main=measured(5.0)), record(main=measured(6.0)), record(main=queued("why")))
    assert found.refused == (
        ("main", "the time was taken queued by events, not hot by events in 1 of 3 runs"),
    )
    assert [one.time_us for _, one in found.labels["main"].times] == [5.0, 6.0]


def test_time_of_the_first_source_is_taken_if_a_run_has_both() -> None:
    by_cupti = replace(timing(5.0), source="cupti", cupti_us=5.0, events_us=5.5)
    found = gathered(record(main=measured(6.0)), record(main=Measurement(timing=by_cupti)))
    assert found.refused == ()
    assert [one.time_us for _, one in found.labels["main"].times] == [6.0, 5.5]
