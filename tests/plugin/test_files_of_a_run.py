"""How many files of the package one test enters, and how often it moves from one to another."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import simulated_run
from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.baseline.store import BaselineStore
from run_builders import measured, record, run

if TYPE_CHECKING:
    from runs_of_pytest import AddRecording

pytestmark = pytest.mark.usefixtures("forked_runs")
MOST_FILES_OF_A_REPLAY = 27
MOST_MOVES_OF_A_REPLAY = 173
MOST_FILES_OF_A_LIVE_RUN = 58
MATHEMATICS = re.compile(r"/(statistics|metrics)/|(param_structs|occupancy|time_lower_bound)\.py$")
FOLLOWED = """
import json, pathlib, sys
import pytest, pytest_gpuperf

entered = []

def enter(frame, event, _):
    path = frame.f_code.co_filename
    if event == "call" and path.startswith(pytest_gpuperf.__path__[0]):
        entered.append(path)

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(nextitem):
    sys.setprofile(None if nextitem else enter)
    try:
        return (yield)
    finally:
        sys.setprofile(None)
        pathlib.Path("entered.json").write_text(json.dumps(entered))
"""
"""Notes the file of each function of the package that is called by the last test."""
TEST = """
def test_k(gpuperf):
    gpuperf(print, 1, expected=print)
"""
LIVE_TEST = """
import torch
from simulated_run import launch

def square(x):
    launch()
    return x * x

def test_k(gpuperf):
    gpuperf(square, torch.rand(64), expected=lambda x: x * x)

test_second = test_k
"""
"""The first test of a run begins its file."""


def files_entered(pytester: pytest.Pytester, test: str, *arguments: str) -> list[str]:
    """Run tests, and return the file of each function of the package that the last one calls, in order."""
    pytester.makeconftest(FOLLOWED)
    pytester.makepyfile(test_k=test)
    assert pytester.runpytest_subprocess("--gpuperf", *arguments).ret == pytest.ExitCode.OK
    found: list[str] = json.loads((pytester.path / "entered.json").read_bytes())
    return found


def test_replay_passes_few_files(pytester: pytest.Pytester, add_recording: AddRecording) -> None:
    recorded = run(record("test_k.py::test_k", main=measured(5.3, {"memory_throughput": 77.0})))
    add_recording(recorded)
    accept(recorded, BaselineStore(pytester.path / "baselines"), "all", 0.0)
    entered = files_entered(pytester, TEST)
    assert len(set(entered)) <= MOST_FILES_OF_A_REPLAY
    assert sum(one != following for one, following in pairwise(entered)) <= MOST_MOVES_OF_A_REPLAY


def test_live_run_passes_few_files(pytester: pytest.Pytester) -> None:
    simulated = ("-p", simulated_run.__name__, "-o", "gpuperf_budget=0.01")
    files_entered(pytester, LIVE_TEST, *simulated, "--gpuperf-update=all")
    entered = {
        path for path in files_entered(pytester, LIVE_TEST, *simulated) if not MATHEMATICS.search(path)
    }
    assert len(entered) <= MOST_FILES_OF_A_LIVE_RUN, sorted(entered)
