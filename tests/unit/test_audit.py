"""Single calls in CUPTI's records: work outside of them, after them, and missing."""

from __future__ import annotations

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti import activity
from pytest_gpuperf.measure.cupti.activity import Activity, refuse_elsewhere
from pytest_gpuperf.measure.verification.cupti_records import Audit, audit_of

SPIN = Activity(0, 1000, "spin_kernel", launch=1)


def calls(us: float = 50.0, count: int = 5, *, between: bool = False) -> list[Activity]:
    """Return the records of calls with one kernel each, and an empty kernel before and after."""
    records, launch, at = [SPIN], 1, 1000
    for _ in range(count):
        steps = [("gpuperf_empty", 1000), ("k", round(us * 1e3)), ("gpuperf_empty", 1000)]
        for name, ns in [("", 30_000), *steps] if between else steps:
            launch += 1
            records.append(Activity(at, at + ns, name, launch=launch))
            at += ns
    return records


def audited(*more: Activity, us: float = 50.0, between: bool = False) -> Audit:
    return audit_of([*calls(us, between=between), *more], 5, between=int(between))


def test_honest_calls_have_nothing_outside() -> None:
    assert audited() == Audit(busy_us=50.0, silent=0, calls=5, outside_us=0.0, late=0, launches=1)


def test_flushes_between_calls_are_not_work() -> None:
    found = audited(between=True)
    assert (found.busy_us, found.late) == (50.0, 0)


@pytest.mark.parametrize(("begin_us", "outside_us"), [(0.5, 1.5), (40.0, 88.0)])
def test_other_streams_count_before_and_after_the_marks(begin_us: float, outside_us: float) -> None:
    """The first call lasts from 2 to 52 µs."""
    begin_ns = round(begin_us * 1e3)
    records = [one._replace(launch=10 * one.launch) for one in calls()]
    side = Activity(begin_ns, begin_ns + 100_000, "side", launch=25, stream=9)
    found = audit_of([*records, side], 5)
    assert found.outside_us == max(outside_us, begin_us + 100 - 52)


def test_launches_after_the_last_call_are_late() -> None:
    assert audited(Activity(999_000, 999_900, "late", launch=99)).late == 1


def test_late_launches_are_refused() -> None:
    with pytest.raises(GpuperfError, match="the time is refused: 2 launches came after 5 calls"):
        refuse_elsewhere(silent=0, late=2, calls=5)


def test_calls_without_launches_are_refused_next_to_others() -> None:
    with pytest.raises(GpuperfError, match="4 of 5 calls launched nothing"):
        refuse_elsewhere(silent=4, late=0, calls=5)
    refuse_elsewhere(silent=0, late=0, calls=5)


@pytest.mark.parametrize(("time_us", "told"), [(50.0, False), (35.0, False), (30.0, True), (5.0, True)])
def test_time_far_below_single_calls_is_told(time_us: float, told: bool) -> None:
    assert bool(audited().doubt(time_us)) is told


def test_graph_with_more_work_than_single_calls_is_told() -> None:
    assert not audited().doubt(50.0, 72.0)
    assert audited().doubt(50.0, 80.0)


def test_copies_from_the_host_between_calls_are_not_late() -> None:
    assert audited(Activity(999_000, 999_900, "", launch=99, with_host=True)).late == 0


def test_copies_from_the_host_are_work_of_calls_that_do_nothing_else() -> None:
    records = [
        one._replace(name="", bytes=2000, with_host=True) if one.name == "k" else one for one in calls()
    ]
    assert audit_of(records, 5) == audited()._replace(copied_bytes=2000.0)


def test_copies_from_the_host_are_no_work_next_to_kernels() -> None:
    """Such a copy of another thread may run at any time."""
    copy = Activity(3000, 900_000, "", launch=2, stream=9, with_host=True)
    assert audited(copy) == audited()._replace(launches=1)


@pytest.mark.parametrize(("captured", "told"), [(0, True), (1, False), (2, False)])
def test_launches_that_a_capture_does_not_see_are_told(captured: int, told: bool) -> None:
    why = audited().uncontained(captured)
    assert ("launches 1 kernels, fills and copies, and a capture sees 0" in why) is told


@pytest.mark.parametrize(("threads", "waits"), [(1, []), (2, [activity.THREADS_S])])
def test_other_threads_get_time_to_launch(
    monkeypatch: pytest.MonkeyPatch, threads: int, waits: list[float]
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("sys._current_frames", lambda: dict.fromkeys(range(threads)))
    monkeypatch.setattr("time.sleep", waited.append)
    activity.wait_for_threads()
    assert waited == waits
