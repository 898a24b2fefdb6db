"""Tests of the benchmark of several GPUs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from benchmarks.children import ROOT
from benchmarks.several_gpus import Results, Session, joined, session_of, spread_pct, summary_table
from run_builders import one_test

RECORDING = ROOT / "baselines/nvidia-h200/recordings/20261121-233201-e192.json"


def session(gpus: int, wall_s: float, time_us: float, card: str = "GPU-0", **verdicts: int) -> Session:
    return Session(
        gpus=gpus, wall_s=wall_s, verdicts=verdicts, times_us={"t (main)": time_us}, cards={"t": card}
    )


def test_table_has_gain_false_alarms_and_spread() -> None:
    sessions = (
        session(1, 100, 10.0, passed=3),
        session(1, 100, 10.1, passed=3),
        session(2, 50, 10.0, passed=2, regressed=1),
        session(2, 54, 10.4, passed=1, improved=1, inconclusive=1),
    )
    results = Results(schema=1, date="", environment=one_test().environment, sessions=sessions)
    one, two = summary_table(results).splitlines()[2:]
    assert one == "|1|2|100|1.00|0 of 6|0|0.70 %|"
    assert two == "|2|2|52|1.92|2 of 6|1|2.77 %|"


def test_runs_on_one_and_on_several_are_joined() -> None:
    environment = one_test().environment
    one, two = (
        Results(schema=1, date=str(gpus), environment=environment, sessions=(session(gpus, 1, 10.0),))
        for gpus in (1, 2)
    )
    assert joined([one, two]) == replace(one, sessions=(*one.sessions, *two.sessions))
    other = replace(two, environment=replace(environment, gpu=replace(environment.gpu, slug="other")))
    with pytest.raises(SystemExit, match="found several GPU models"):
        joined([one, other])


def test_times_of_two_cards_are_two_samples() -> None:
    assert spread_pct([session(2, 1, 10.0), session(2, 1, 20.0, card="GPU-1")]) == []
    assert spread_pct([session(2, 1, 10.0), session(2, 1, 10.2)]) == pytest.approx([1.4002], rel=1e-3)


def test_run_is_judged_by_the_baselines() -> None:
    found = session_of(1, 10.0, RECORDING)
    assert sum(found.verdicts.values()) == len(found.cards) == 102
    assert not {"regressed", "improved"} & found.verdicts.keys()
    assert found.times_us["suites/test_square.py::test_square_cuda[256] (main)"] > 0
