"""Number of sessions that have read the counters of a baseline, and the ranges of counts of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.records import KernelProfile, Measurement
from run_builders import NODEID, measured, profile, timing
from session_builders import accepted, content, on_day

if TYPE_CHECKING:
    from pytest_gpuperf.records import Run
    from pytest_gpuperf.records.baseline import MeasurementBaseline


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> BaselineStore:
    return BaselineStore(tmp_path_factory.mktemp("project") / "baselines")


def read(day: int, instructions: float, *, time_us: float | None = 5.3, **how: Any) -> Run:
    """Return a run that has read counters; `how` has fields of its profile."""
    main = measured(time_us, {"instructions": instructions, "flops.fp32": 64.0, "l2_hit_rate": float(day)})
    assert main.profile is not None
    return on_day(day, msgspec.structs.replace(main, profile=msgspec.structs.replace(main.profile, **how)))


def stored(store: BaselineStore) -> tuple[int, dict[str, tuple[float, float]]]:
    """Return the stored number of sessions and ranges."""
    known = known_of(store)
    return known.counters_sessions, known.counters_range


def known_of(store: BaselineStore) -> MeasurementBaseline:
    loaded = store.load("nvidia-h200", "test_square")
    assert loaded is not None
    return loaded.tests[NODEID].measurements["main"]


def in_file(store: BaselineStore) -> dict[str, Any]:
    main: dict[str, Any] = content(store)["tests"][NODEID]["measurements"]["main"]
    return main


def test_sessions_that_agree_are_counted_and_have_no_range(store: BaselineStore) -> None:
    # The values agree in the six digits of a file; a state counter always differs, which does not matter.
    accepted(store, read(1, 12345678.0), read(2, 12345682.0))
    assert in_file(store)["counters_sessions"] == 2
    assert "counters_range" not in in_file(store)


def test_differing_sessions_leave_a_range(store: BaselineStore) -> None:
    accepted(store, read(1, 1004.0), read(2, 1000.0), read(3, 1001.0))
    assert in_file(store)["counters_range"] == {"instructions": [1000, 1004]}
    assert (in_file(store)["counters_sessions"], in_file(store)["counters"]["instructions"]) == (3, 1001)


def test_one_session_stores_no_count_or_range(store: BaselineStore) -> None:
    accepted(store, read(1, 1000.0))
    assert not in_file(store).keys() & {"counters_sessions", "counters_range"}
    assert stored(store) == (1, {})


def test_baseline_of_one_session_takes_more(store: BaselineStore) -> None:
    accepted(store, read(1, 1000.0))
    accepted(store, read(2, 1000.0))
    assert stored(store) == (2, {})


def test_later_sessions_of_the_same_code_widen_the_range(store: BaselineStore) -> None:
    accepted(store, read(1, 100_000.0), read(2, 100_050.0))
    accepted(store, read(3, 99_990.0))
    assert stored(store) == (3, {"instructions": (99_990, 100_050)})
    accepted(store, read(4, 100_010.0))
    assert stored(store) == (4, {"instructions": (99_990, 100_050)})


@pytest.mark.parametrize("time_us", [5.3, None], ids=["timed", "counters only"])
def test_count_beyond_its_tolerance_starts_again(store: BaselineStore, time_us: float | None) -> None:
    accepted(store, read(1, 1000.0, time_us=time_us), read(2, 1000.0, time_us=time_us))
    accepted(store, read(3, 1050.0, time_us=time_us))
    assert stored(store) == (1, {})


def test_sessions_of_other_code_start_again(store: BaselineStore) -> None:
    accepted(store, read(1, 1000.0), read(2, 1001.0))
    accepted(store, read(3, 1001.0, time_us=9.9))
    assert stored(store) == (1, {})


@pytest.mark.parametrize(
    "how",
    [
        {"source": "cupti", "cache_control": "none"},
        {"cache_control": "none"},
        {"regex": "square"},
        {"launches": "last"},
        {"kernels": ()},
        {"combined": {}, "unavailable": "counters are off"},
    ],
    ids=["cupti", "caches", "regex", "launches", "kernels", "off"],
)
def test_readings_taken_in_another_way_do_not_count(store: BaselineStore, how: dict[str, Any]) -> None:
    accepted(store, read(1, 1234.0, **how), read(2, 1000.0))
    assert stored(store) == (1, {})


@pytest.mark.parametrize(
    "how",
    [
        {"source": "cupti", "cache_control": "none"},
        {"regex": "square"},
        {"launches": "last"},
        {"kernels": (KernelProfile(name="other"),)},
    ],
    ids=["cupti", "regex", "launches", "kernels"],
)
def test_stored_sessions_count_only_if_read_the_same_way(store: BaselineStore, how: dict[str, Any]) -> None:
    accepted(store, read(1, 1000.0), read(2, 1001.0))
    accepted(store, read(3, 1000.0, **how))
    assert stored(store) == (1, {})


def test_one_stored_run_shows_that_code_is_unchanged(store: BaselineStore) -> None:
    accepted(store, read(1, 1000.0), read(2, 1001.0))
    accepted(store, read(2, 1001.0), read(3, 1200.0))
    assert stored(store)[1] == {"instructions": (1000, 1200)}


def test_session_without_counters_leaves_those_stored(store: BaselineStore) -> None:
    accepted(store, read(1, 1000.0), read(2, 1001.0))
    off = Measurement(timing=timing(5.3), profile=profile({}, unavailable="counters are off"))
    accepted(store, on_day(3, off))
    assert stored(store) == (2, {"instructions": (1000, 1001)})


def test_a_run_is_counted_once(store: BaselineStore) -> None:
    for _ in range(3):
        accepted(store, read(1, 1000.0))
    assert stored(store) == (1, {})
    accepted(store, read(2, 1000.0))
    accepted(store, read(1, 1000.0))
    assert stored(store) == (2, {})


def test_counter_read_by_one_session_keeps_its_tolerance(
    store: BaselineStore,
) -> None:
    few: dict[str, Any] = {"combined": {"instructions": 1001.0}, "preset": "instructions"}
    accepted(store, read(1, 1000.0))
    accepted(store, read(2, 0.0, **few))
    # Only counters that both have read have a range.
    assert stored(store) == (1, {"instructions": (1000, 1001)})
    assert known_of(store).counters["flops.fp32"] == 64


VALUES = st.sampled_from([1000.0, 1000.4, 1001.0, 1050.0, 0.0])
READS = st.tuples(st.integers(1, 30), VALUES)
BATCHES = st.lists(READS, min_size=1, max_size=4, unique_by=lambda pair: pair[0])
Batch = list[tuple[int, float]]


@given(st.lists(BATCHES, min_size=1, max_size=4), st.sampled_from([5.3, None]))
def test_accepting_the_same_readings_again_changes_no_byte(
    tmp_path_factory: pytest.TempPathFactory, batches: list[Batch], time_us: float | None
) -> None:
    store = BaselineStore(tmp_path_factory.mktemp("project") / "baselines")
    for batch in batches:
        runs = [read(day, value, time_us=time_us) for day, value in batch]
        accepted(store, *runs)
        sessions, seen = stored(store)
        values = {value for _, value in batch}
        newest = known_of(store).counters["instructions"]
        assert isinstance(newest, float)
        least, most = seen.get("instructions", (newest, newest))
        assert least <= min(values) <= max(values) <= most
        assert sessions >= len(batch)
        assert (least < most) == ("instructions" in seen)
        assert accepted(store, *runs).files == {}
