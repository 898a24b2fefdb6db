"""Properties of the sessions of a baseline after any runs in any order."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.baseline.sessions import MAX_SESSIONS, Rule, merged_time
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
RULES: st.SearchStrategy[Rule] = st.sampled_from(["auto", "append", "replace"])


@given(st.lists(st.tuples(BATCHES, RULES), min_size=1, max_size=4))
def test_sessions_are_few_sorted_and_of_different_runs(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[list[Run], Rule]]
) -> None:
    store = BaselineStore(tmp_path_factory.mktemp("project") / "baselines")
    for runs, rule in batches:
        accepted(store, *runs, sessions=rule)
        assert days(store) == sorted(set(days(store)))
        assert len(days(store)) <= MAX_SESSIONS
        newest = {int(one.id[6:8]) for one in runs}
        assert set(days(store)) <= newest if rule == "replace" else max(newest) <= max(days(store))
        assert sorted(content(store)["runs"]) == [f"202611{day:02}-000000-0000" for day in days(store)]


@given(BATCHES, BATCHES, RULES)
def test_accepting_the_same_runs_again_changes_no_byte(
    tmp_path_factory: pytest.TempPathFactory, before: list[Run], runs: list[Run], rule: Rule
) -> None:
    store = BaselineStore(tmp_path_factory.mktemp("project") / "baselines")
    accepted(store, *before)
    accepted(store, *runs, sessions=rule)
    assert accepted(store, *runs, sessions=rule).files == {}


@given(BATCHES, BATCHES)
def test_sessions_are_independent_of_their_order(
    tmp_path_factory: pytest.TempPathFactory, some: list[Run], others: list[Run]
) -> None:
    known = {one.id for one in some}
    others = [one for one in others if one.id not in known]
    stores = [BaselineStore(tmp_path_factory.mktemp("project") / "baselines") for _ in range(2)]
    for store, order in zip(stores, ([some, others], [others, some]), strict=True):
        for runs in order:
            if runs:
                accepted(store, *runs, sessions="append")
    assert content(stores[0]) == content(stores[1])


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
