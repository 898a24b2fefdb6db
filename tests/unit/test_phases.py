"""Seconds of a run by phase."""

from __future__ import annotations

import time

import pytest

from pytest_gpuperf.session import progress


def test_long_run_names_its_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress, "_age_s", lambda: now[0] - 94)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    found = progress.Phases()
    assert found.lines() == []
    with found("times"):
        now[0] += 20
    with found("checks"):
        now[0] += 4
    with found("counters"):
        now[0] += 0.9
    assert found.lines() == ["seconds: 31, of which imports 6, times 20, checks 4"]


def test_age_of_a_process_is_that_of_its_start() -> None:
    before = progress._age_s()
    assert before > 0
    time.sleep(0.05)
    assert progress._age_s() - before == pytest.approx(0.05, abs=0.04)
