"""Durations of tests: kept in the baselines, and expected by them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.baseline.run_verdicts import judge_run
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.session.expected_durations import (
    UNKNOWN_S,
    expected_durations,
    load_cards,
    load_durations,
)
from run_builders import H200, measured, record, run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.records import Run

NAMES = ("t/test_a.py::test_long", "t/test_b.py::test_short")


@pytest.fixture
def store(tmp_path: Path) -> BaselineStore:
    return BaselineStore(tmp_path / "baselines")


def lasting(*seconds: float, id: str = "20261120-173012-3f9a", card: str = "") -> Run:
    tests = (
        replace(record(name, main=measured()), seconds=one, gpu_uuid=card)
        for name, one in zip(NAMES, seconds, strict=False)
    )
    return run(*tests, id=id)


def accepted(store: BaselineStore, *runs: Run) -> BaselineStore:
    for one in runs:
        accept(one, store, "all", 0.0)
    return BaselineStore(store.root)


def test_baseline_keeps_the_duration_of_the_newest_run(store: BaselineStore) -> None:
    runs = lasting(12.34, 0.5), lasting(8.0, 0.0, id="20261121-173012-3f9a")
    assert load_durations(accepted(store, *runs), H200.slug) == {NAMES[0]: 8.0, NAMES[1]: 0.5}


def test_new_test_is_expected_to_last_as_the_median() -> None:
    known = {"a": 1.0, "b": 2.0, "c": 30.0}
    assert expected_durations(["new", "c"], known) == {"new": 2.0, "c": 30.0}
    assert expected_durations(["new"], {}) == {"new": UNKNOWN_S}


def test_session_names_the_card_if_it_is_not_that_of_the_run(store: BaselineStore) -> None:
    accepted(store, lasting(1.0), lasting(1.0, id="20261121-173012-3f9a", card="GPU-9"))
    path = store.path(H200.slug, "test_a")
    time = json.loads(path.read_bytes())["tests"][NAMES[0]]["measurements"]["main"]["time"]
    assert [session.get("gpu_uuid") for session in time["sessions"]] == [None, "GPU-9"]


def test_card_of_a_test_is_that_of_its_newest_session(store: BaselineStore) -> None:
    kept = accepted(store, lasting(1.0, 1.0), lasting(1.0, id="20261121-173012-3f9a", card="GPU-9"))
    assert load_cards(kept, H200.slug) == {NAMES[0]: "GPU-9", NAMES[1]: H200.uuid}


@pytest.mark.parametrize(("card", "replicates"), [("", 3), ("GPU-9", 1)])
def test_times_are_judged_by_sessions_of_their_card(store: BaselineStore, card: str, replicates: int) -> None:
    own = [lasting(1.0, id=f"2026112{day}-173012-3f9a") for day in range(3)]
    new = accepted(store, *own, lasting(1.0, id="20261123-173012-3f9a", card="GPU-9"))
    [result] = judge_run(lasting(1.0, id="20261124-173012-3f9a", card=card), new)
    time = result.times["main"]
    assert (time.decision.replicates, time.stored) == (replicates, 4)
