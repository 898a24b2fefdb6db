from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gpuperf.baseline.judged import judge_run
from pytest_gpuperf.baseline.merge import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records.runs import load_run
from run_builders import NODEID, measured, one_test, record, run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BaselineStore:
    monkeypatch.delenv("CI", raising=False)
    found = BaselineStore(tmp_path / "baselines")
    accept(one_test(), found, "all", 0.0)
    return found


def test_recording_passes_by_its_own_baselines() -> None:
    run = load_run(ROOT / "baselines/nvidia-h200/recordings/20261121-233201-e192.json")
    assert {one.verdict.status for one in judge_run(run, BaselineStore(ROOT / "baselines"))} == {Status.PASS}


def test_slower_time_regresses_without_any_test_code(store: BaselineStore) -> None:
    [found] = judge_run(one_test(time_us=9.0), store)
    assert found.verdict.status is Status.REGRESSED


def test_accepted_slowdown_does_not_regress(store: BaselineStore) -> None:
    [found] = judge_run(one_test(time_us=9.0), store, tolerance_pct=90)
    assert found.verdict.status is not Status.REGRESSED


def test_test_without_baseline_is_new(store: BaselineStore) -> None:
    old, new = judge_run(run(record(main=measured()), record("t.py::new", main=measured())), store)
    assert (old.record.nodeid, old.verdict.status) == (NODEID, Status.PASS)
    assert new.verdict.status is Status.NEW


def test_test_ended_by_its_assertion_is_invalid(store: BaselineStore) -> None:
    [found] = judge_run(run(record(failure="AssertionError", main=measured())), store)
    assert found.verdict.status is Status.INVALID
