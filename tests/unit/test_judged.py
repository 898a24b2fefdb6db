from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.baseline.run_verdicts import judge_run
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.limits import parse_limit
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records.run_store import load_run
from run_builders import measured, one_test, record, run

if TYPE_CHECKING:
    from pytest_gpuperf.records import Run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path: Path) -> BaselineStore:
    found = BaselineStore(tmp_path / "baselines")
    accept(one_test(), found, "all", 0.0)
    return found


def test_recording_passes_by_its_own_baselines() -> None:
    run = load_run(ROOT / "baselines/nvidia-h200/recordings/20261128-084132-8b17.json")
    assert {one.status for one in judge_run(run, BaselineStore(ROOT / "baselines"))} == {Status.PASS}


def stating(*limits: str, time_us: float = 5.3) -> Run:
    test = record(main=measured(time_us))
    return run(structs.replace(test, limits=limits))


def test_limit_that_the_test_stated_is_judged(store: BaselineStore) -> None:
    kept, broken = (judge_run(stating(text), store)[0] for text in ("time_us < 6", "time_us < 5"))
    assert kept.status is Status.PASS
    assert broken.status is Status.LIMIT
    assert [one.line for one in broken.findings][:1] == [
        "time_us 5.30 is not below the limit < 5 of the test (baseline 5.30)"
    ]


@given(st.text(max_size=300))
def test_any_stated_text_is_judged_or_invalid(text: str) -> None:
    try:
        parse_limit(text)
    except GpuperfError:
        [found] = judge_run(stating(text), BaselineStore(ROOT / "nowhere"))
        assert found.status is Status.INVALID
        assert found.findings[0].line.endswith("in the record of the test")
