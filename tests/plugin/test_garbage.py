"""Python's garbage collector during and after a replay."""

from __future__ import annotations

import gc

import pytest

TEST = """
import gc

def test_k(gpuperf):
    assert gc.get_threshold()[2] == 1000 and gc.get_freeze_count()
"""


@pytest.mark.usefixtures("replay")
def test_replay_collects_rarely_and_leaves_the_collector_as_it_was(pytester: pytest.Pytester) -> None:
    before = gc.get_threshold()
    pytester.makepyfile(test_k=TEST)
    pytester.runpytest_inprocess("--gpuperf").assert_outcomes(passed=1)
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_run_without_recording_collects_as_usual(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"import gc\ndef test_k(): assert gc.get_threshold() == {gc.get_threshold()}")
    pytester.runpytest_inprocess("--gpuperf").assert_outcomes(passed=1)


def test_objects_that_others_have_frozen_stay_frozen(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import gc\ngc.freeze()")
    pytester.makepyfile("def test_k(): pass")
    try:
        pytester.runpytest_inprocess("--gpuperf").assert_outcomes(passed=1)
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
