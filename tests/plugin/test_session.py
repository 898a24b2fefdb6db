"""Runs of the plugin: refusals, JUnit files, Markdown and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from run_builders import measured, record, run
from run_results import expect

if TYPE_CHECKING:
    from runs_of_pytest import AddRecording

REPEATED = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    runtestprotocol(item, nextitem=nextitem, log=False)
    runtestprotocol(item, nextitem=nextitem)
    return True
"""


def test_two_timings_need_two_labels(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n    gpuperf.time(print)\n")
    result = pytester.runpytest("--gpuperf")
    expect(result, "*has measured timing under the label 'main' already*label=*", failed=1)


@pytest.mark.parametrize("expected", ["None", "5", "'x'", "[None]"])
def test_replay_refuses_an_expected_output_without_tensors(
    pytester: pytest.Pytester, replay: None, expected: str
) -> None:
    pytester.makepyfile(test_k=f"def test_k(gpuperf):\n    gpuperf(print, expected={expected})\n")
    expect(pytester.runpytest("--gpuperf"), "*a reference callable, or the expected tensors*", failed=1)


@pytest.mark.parametrize("value", ["np.prod((64, 64))", "4096.0"])
def test_whole_numbers_of_other_types_are_taken(pytester: pytest.Pytester, replay: None, value: str) -> None:
    pytester.makepyfile(
        test_k=f"""
        import numpy as np

        def test_k(gpuperf):
            timing = gpuperf.time(print, flops={value})
            assert type(timing.flops) is int
            assert timing.flops == 4096
        """
    )
    pytester.runpytest("--gpuperf").assert_outcomes(passed=1)


UNITTEST = """
import unittest
import pytest

class TestK(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def take(self, gpuperf):
        self.gpuperf = gpuperf

    {mark}
    def test_k(self):
        {body}
"""


@pytest.mark.parametrize(
    ("limit", "last", "outcome"),
    [
        (1, "", "xfailed"),
        (9, "self.fail()", "xfailed"),
        (9, "", "failed"),
        (1, "self.skipTest('x')", "failed"),
        (9, "self.skipTest('x')", "skipped"),
    ],
)
def test_broken_limit_is_an_expected_failure_of_unittest(
    pytester: pytest.Pytester, add_recording: AddRecording, limit: int, last: str, outcome: str
) -> None:
    add_recording(run(record("test_k.py::TestK::test_k", main=measured(5.3))))
    body = f"self.gpuperf.limit('time_us < {limit}'); self.gpuperf.time(print); {last}"
    pytester.makepyfile(test_k=UNITTEST.format(mark="@unittest.expectedFailure", body=body))
    pytester.runpytest("--gpuperf").assert_outcomes(**{outcome: 1})


def test_repeated_test_has_its_junit_properties_once(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makeconftest(REPEATED)
    pytester.makepyfile(
        test_k="""
        def test_k(gpuperf, record_property):
            record_property("own", 1)
            gpuperf.time(print)
        """
    )
    pytester.runpytest("--gpuperf", "--junitxml=report.xml").assert_outcomes(passed=1)
    text = (pytester.path / "report.xml").read_text()
    assert text.count('"gpuperf.verdict"') == text.count('"gpuperf.main.time_us"') == 1
    assert '"own"' in text


@pytest.mark.parametrize("call", ["profile(print)", "limit('time_us < 1')"])
def test_call_after_the_verdict_is_refused(pytester: pytest.Pytester, replay: None, call: str) -> None:
    pytester.makepyfile(
        test_k=f"""
        import pytest
        @pytest.fixture
        def late(gpuperf):
            yield
            gpuperf.{call}
        def test_k(gpuperf, late): gpuperf.time(print)
        """
    )
    expect(pytester.runpytest("--gpuperf"), "*expected a call before the test ends*", passed=1, errors=1)


def test_fixture_requested_while_the_test_runs_is_refused(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(
        test_k="""
        def test_k(gpuperf): gpuperf._keep("main")
        def test_late(request): request.getfixturevalue("gpuperf")
        """
    )
    expect(pytester.runpytest("--gpuperf"), "*expected it among the test's arguments*", passed=1, failed=1)
