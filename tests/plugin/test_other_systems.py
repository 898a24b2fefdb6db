"""Systems and pytests on which the plugin cannot do all: each says what it does."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from against_project import PLUGIN, TESTS
from pytest_gpuperf.plugin import entry

# pytest's other capture looks at the console of Windows.
ON_WINDOWS = ("-p", "fake_windows", "--capture=sys")
TEST = "def test_k(gpuperf): gpuperf.time(len, [])"
NEEDS = "measuring needs Linux with an NVIDIA GPU, and this is Windows; here a replay and gpuperf.static run"


@pytest.fixture(autouse=True)
def _with_stand_ins(monkeypatch: pytest.MonkeyPatch, forked_runs: None) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (TESTS, PLUGIN))))


def test_windows_without_the_flag_skips_what_measures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=f"{TEST}\ndef test_plain(): pass")
    result = pytester.runpytest_subprocess(*ON_WINDOWS, "-W", "error")
    result.assert_outcomes(passed=1, skipped=1)


@pytest.mark.usefixtures("replay")
def test_windows_replays_and_says_so_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf): gpuperf.profile(len, [])")
    result = pytester.runpytest_subprocess(*ON_WINDOWS, "--gpuperf")
    result.assert_outcomes(passed=1)
    said = " ".join(result.stdout.str().split())
    assert said.count("Windows") == 1
    assert f"gpuperf: nothing was measured: {NEEDS}" in said
    assert all(len(line) <= 100 for line in result.outlines if line.startswith("gpuperf: "))


def test_windows_without_a_recording_names_what_runs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=TEST)
    result = pytester.runpytest_subprocess(*ON_WINDOWS, "--gpuperf")
    result.assert_outcomes(failed=1)
    assert NEEDS in " ".join(result.stdout.str().split())


def test_pytest_without_early_options_starts_as_without_the_plugin() -> None:
    config: Any = SimpleNamespace(getini=lambda name: False)
    hook: Any = entry.pytest_load_initial_conftests(config, [])
    assert next(hook) is None
    with pytest.raises(StopIteration):
        next(hook)


def test_pytest_without_early_options_runs_in_one_process_and_says_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_k="def test_k(gpuperf): gpuperf.time(lambda: 5.0)",
        missing="from pytest_gpuperf.plugin import entry, hooks, process_isolation\n"
        "for one in (entry, hooks, process_isolation): one.early_options = lambda config: None",
    )
    options = ("-p", "missing", "-p", "xdist", "-p", "fake_gpu", "--gpuperf", "--gpuperf-counters=off")
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=1)
    said = " ".join(result.stdout.str().split())
    assert "gpuperf: the tests ran in this process, " in said
    assert "no known_args_namespace" in said
