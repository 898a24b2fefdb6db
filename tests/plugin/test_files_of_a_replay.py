"""How many files of the package a replayed test enters, and how often it moves from one to another."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

from pytest_gpuperf.baseline.merge import accept
from pytest_gpuperf.baseline.store import BaselineStore
from run_builders import measured, record, run

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from pytest_gpuperf.records import Run

MOST_FILES = 30
MOST_MOVES = 190
FOLLOWED = """
import json, sys
import pytest
import pytest_gpuperf

entered = []

def enter(frame, event, _):
    path = frame.f_code.co_filename
    if event == "call" and path.startswith(pytest_gpuperf.__path__[0]):
        entered.append(path)

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol():
    sys.setprofile(enter)
    try:
        return (yield)
    finally:
        sys.setprofile(None)
        with open("entered.json", "w") as file:
            json.dump(entered, file)
"""
"""Notes the file of each function of the package that is called."""
TEST = """
def test_k(gpuperf):
    gpuperf(print, 1, expected=print)
"""


def test_replay_passes_few_files(pytester: pytest.Pytester, add_recording: Callable[[Run], None]) -> None:
    recorded = run(record("test_k.py::test_k", main=measured(5.3, {"memory_throughput": 77.0})))
    add_recording(recorded)
    accept(recorded, BaselineStore(pytester.path / "baselines"), "all", 0.0, environ={})
    pytester.makeconftest(FOLLOWED)
    pytester.makepyfile(test_k=TEST)
    pytester.runpytest("--gpuperf").assert_outcomes(passed=1)
    entered = json.loads((pytester.path / "entered.json").read_bytes())
    assert len(set(entered)) <= MOST_FILES
    assert sum(one != following for one, following in pairwise(entered)) <= MOST_MOVES
