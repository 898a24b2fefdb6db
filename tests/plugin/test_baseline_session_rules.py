"""Properties of the sessions of a baseline after any runs in any order."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.baseline.sessions import MAX_SESSIONS, merged_time
from pytest_gpuperf.baseline.store import BaselineStore
from run_builders import measured, timing
from session_builders import accepted, content, days, on_day

if TYPE_CHECKING:
    import pytest

    from pytest_gpuperf.records import Run

DAYS = st.integers(1, 30)
TIMES = st.sampled_from([5.0, 5.1, 5.2, 9.9])
BATCHES = st.lists(st.tuples(DAYS, TIMES), min_size=1, max_size=25, unique_by=lambda pair: pair[0]).map(
    lambda pairs: [on_day(day, measured(time_us)) for day, time_us in pairs]
)


@given(st.lists(BATCHES, min_size=1, max_size=4))
def test_sessions_are_few_sorted_and_of_different_runs(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Run]]
) -> None:
    store = BaselineStore(tmp_path_factory.mktemp("project") / "baselines")
    for runs in batches:
        accepted(store, *runs)
        assert days(store) == sorted(set(days(store)))
        assert len(days(store)) <= MAX_SESSIONS
        assert max(int(one.id[6:8]) for one in runs) <= max(days(store))
        assert sorted(content(store)["runs"]) == [f"202611{day:02}-000000-0000" for day in days(store)]


@given(BATCHES, BATCHES)
def test_accepting_the_same_runs_again_changes_no_byte(
    tmp_path_factory: pytest.TempPathFactory, before: list[Run], runs: list[Run]
) -> None:
    store = BaselineStore(tmp_path_factory.mktemp("project") / "baselines")
    accepted(store, *before)
    accepted(store, *runs)
    assert accepted(store, *runs).files == {}


HAND_MADE = st.dictionaries(st.sampled_from(["mine", "checked_by"]), st.text(), max_size=2)


@given(HAND_MADE, HAND_MADE, st.lists(DAYS, min_size=1, max_size=25, unique=True))
def test_keys_added_by_hand_stay_in_times_and_sessions(
    of_time: dict[str, str], of_session: dict[str, str], numbers: list[int]
) -> None:
    runs = [on_day(day) for day in numbers]
    dates = {one.id: one.started_at for one in runs}
    times = [(one, timing(5.3)) for one in runs]
    known = merged_time({}, times[:1], replace=False, dates=dates)
    known["sessions"][0] |= of_session
    merged = merged_time(known | of_time, times, replace=False, dates=dates)
    assert merged.items() >= of_time.items()
    kept = {session["run"]: session for session in merged["sessions"]}
    if runs[0].id in kept:
        assert kept[runs[0].id].items() >= of_session.items()
    assert copy.deepcopy(merged) == merged_time(merged, times, replace=False, dates=dates)
