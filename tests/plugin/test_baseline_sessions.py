from __future__ import annotations

import msgspec
import pytest

from present import present
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import ClockModel, Measurement
from pytest_gpuperf.statistics.decision import trimmed_mean
from run_builders import NODEID, measured, profile, record, timing
from session_builders import accepted, content, days, on_day, time_of

COUNTERS = {"registers_per_thread": 32.0, "instructions": 1000.0, "l2_hit_rate": 80.0}


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> BaselineStore:
    return BaselineStore(tmp_path_factory.mktemp("project") / "baselines")


def with_clock(time_us: float, mhz: float, cycles: float, reference_mhz: float = 1980.0) -> Measurement:
    model = ClockModel(cycles=cycles, fixed_us=time_us - cycles / mhz, reference_mhz=reference_mhz)
    timed = msgspec.structs.replace(timing(time_us), blocks_mhz=(mhz,), clock_model=model, normalised_us=1.0)
    return Measurement(timing=timed)


def test_unchanged_code_adds_a_session(store: BaselineStore) -> None:
    accepted(store, on_day(1, measured(5.3, COUNTERS)))
    result = accepted(store, on_day(2, measured(5.4, COUNTERS)))
    (entry,) = result.entries
    assert (entry.kind, entry.lines[-1]) == ("refreshed", "sessions 1 -> 2")
    assert days(store) == [1, 2]
    assert sorted(content(store)["runs"]) == ["20261101-000000-0000", "20261102-000000-0000"]


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (measured(4.9, COUNTERS), "the time moved"),
        (measured(5.7, COUNTERS), "the time moved"),
        (measured(5.3, COUNTERS, mode="cold"), "they were taken hot by events"),
    ],
    ids=["faster", "slower", "mode"],
)
def test_sessions_of_a_time_that_moved_are_replaced(store: BaselineStore, now: Measurement, why: str) -> None:
    accepted(store, on_day(1, measured(5.3, COUNTERS)), on_day(2, measured(5.3, COUNTERS)))
    (entry,) = accepted(store, on_day(3, now)).entries
    assert f"sessions 2 -> 1 ({why})" in entry.lines
    assert days(store) == [3]
    assert list(content(store)["runs"]) == ["20261103-000000-0000"]


@pytest.mark.parametrize(
    "now",
    [
        measured(5.5, COUNTERS),
        measured(5.3, COUNTERS | {"l2_hit_rate": 40.0}),
        measured(5.3, COUNTERS | {"waves": 1.0}),
        measured(5.3, COUNTERS, "other_kernel"),
        measured(5.3, COUNTERS | {"registers_per_thread": 32.0}),
        Measurement(timing=timing(5.3), profile=profile({}, unavailable="counters are off")),
    ],
    ids=["within tolerance", "state", "new counter", "kernels", "exact", "counters off"],
)
def test_run_that_passes_adds_its_session(store: BaselineStore, now: Measurement) -> None:
    accepted(store, on_day(1, measured(5.3, COUNTERS)))
    accepted(store, on_day(2, now))
    assert days(store) == [1, 2]
    assert (
        content(store)["tests"][NODEID]["measurements"]["main"]["counters"].items()
        >= {"registers_per_thread": 32}.items()
    )


def test_runs_of_one_code_are_sessions_of_one_baseline(store: BaselineStore) -> None:
    accepted(store, on_day(1), on_day(2))
    # The order of the runs does not count; the run of day 3 is within the tolerance, so old ones stay.
    entries = accepted(store, on_day(5, measured(9.9)), on_day(3), on_day(4, measured(9.9))).entries
    assert [entry.lines[-1] for entry in entries] == [f"sessions {day - 1} -> {day}" for day in (3, 4, 5)]
    assert days(store) == [1, 2, 3, 4, 5]
    (first, _) = accepted(store, on_day(6, measured(99.0)), on_day(7)).entries
    assert first.lines[1].startswith("sessions 5 -> 1 (the time moved)")
    assert days(store) == [6, 7]


def test_one_stored_run_shows_that_code_is_unchanged(store: BaselineStore) -> None:
    accepted(store, on_day(2))
    accepted(store, on_day(1, measured(9.9)), on_day(2))
    assert days(store) == [1, 2]


def test_counters_are_those_of_the_newest_run_that_has_some(store: BaselineStore) -> None:
    off = Measurement(timing=timing(5.3), profile=profile({}, unavailable="counters are off"))
    accepted(
        store,
        on_day(1, measured(5.3, {"sm_throughput": 10.0})),
        on_day(2, measured(5.3, {"sm_throughput": 20.0})),
        on_day(3, off),
    )
    main = content(store)["tests"][NODEID]["measurements"]["main"]
    assert (main["counters"], main["counters_run"]) == ({"sm_throughput": 20}, "20261102-000000-0000")


def test_wrong_output_in_one_run_refuses_the_test_in_all(store: BaselineStore) -> None:
    result = accepted(store, on_day(1), on_day(2, measured(5.3, correct=False)))
    assert [(entry.kind, entry.lines) for entry in result.entries] == [
        ("refused", ("the output is wrong in another run",)),
        ("refused", ("the output is wrong",)),
    ]
    assert result.files == {}


def test_test_failed_in_one_run_is_taken_from_others(store: BaselineStore) -> None:
    failed = msgspec.structs.replace(on_day(2), tests=(record(main=measured(), failure="KeyError"),))
    result = accepted(store, on_day(1), failed)
    assert [entry.kind for entry in result.entries] == ["new", "refused"]
    assert days(store) == [1]


def test_one_interrupted_run_of_several_refuses_all(store: BaselineStore) -> None:
    half = msgspec.structs.replace(on_day(2), complete=False)
    with pytest.raises(GpuperfError, match="20261102-000000-0000 was interrupted"):
        accepted(store, on_day(1), half)
    assert not store.root.exists()


def test_oldest_sessions_are_never_dropped(store: BaselineStore) -> None:
    accepted(store, *[on_day(day) for day in range(2, 22)])
    (entry,) = accepted(store, on_day(22)).entries
    kept = [*range(2, 12), *range(13, 23)]
    assert (entry.lines[-1], days(store)) == ("sessions 20 -> 20", kept)
    accepted(store, on_day(12))
    assert days(store) == kept


def test_blocks_at_many_clocks_are_normalised_one_by_one(store: BaselineStore) -> None:
    # Only 100,000 cycles: 50 µs at 2000 MHz, for blocks of any clock.
    clocks = (*(1000.0,) * 2, *(1250.0,) * 6)
    blocks = tuple(100_000 / mhz for mhz in clocks)
    model = ClockModel(cycles=100_000.0, fixed_us=0.0, reference_mhz=2000.0)
    timed = msgspec.structs.replace(
        timing(trimmed_mean(blocks)), blocks_us=blocks, blocks_mhz=clocks, clock_model=model
    )
    accepted(store, on_day(1, Measurement(timing=timed)))
    assert time_of(store)["sessions"][0]["normalised_us"] == 50


def test_first_clock_model_sets_the_reference(store: BaselineStore) -> None:
    clock_unknown = msgspec.structs.replace(timing(10.0), blocks_mhz=())
    accepted(store, on_day(1, Measurement(timing=clock_unknown)))
    assert "reference_mhz" not in time_of(store)
    accepted(store, on_day(2, with_clock(10.0, 1500, 7500.0, reference_mhz=1600.0)))
    accepted(store, on_day(3, with_clock(10.0, 1500, 7500.0, reference_mhz=1980.0)))
    time = time_of(store)
    assert time["reference_mhz"] == 1600
    assert [session.get("normalised_us") for session in time["sessions"]] == [None, 9.6875, 9.6875]
    accepted(store, on_day(4, with_clock(20.0, 1500, 7500.0)))
    assert time_of(store)["reference_mhz"] == 1600


@pytest.mark.parametrize(
    ("mhz", "model"),
    [
        ((), ClockModel(cycles=1980.0, fixed_us=4.3, reference_mhz=1980.0)),
        ((0.0,), ClockModel(cycles=1980.0, fixed_us=4.3, reference_mhz=1980.0)),
        ((1500.0,), None),
    ],
    ids=["no clocks", "a clock unknown", "no model"],
)
def test_unknown_values_are_left_out(
    store: BaselineStore, mhz: tuple[float, ...], model: ClockModel | None
) -> None:
    timed = msgspec.structs.replace(timing(5.3), blocks_mhz=mhz, clock_model=model)
    accepted(store, on_day(1, Measurement(timing=timed)))
    (time,) = present(store.load("nvidia-h200", "test_square")).times
    assert (time.sessions[0].time_us, time.sessions[0].normalised_us) == (5.3, 0.0)
