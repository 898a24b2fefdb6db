"""`--gpuperf-brief` and `--gpuperf-json` in runs of pytest."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace

from pytest_gpuperf.features.export.verdict_json import Verdicts
from run_builders import H200, measured, record, run
from run_results import expect

if TYPE_CHECKING:
    from runs_of_pytest import AddRecording

VERDICTS = Path("verdicts.json")
MEASURES = """
def test_k(gpuperf):
    gpuperf.time(lambda: None)
    gpuperf.limit("dram_throughput >= 99")
"""
FAILURES = """
import os, time

def test_passes(gpuperf):
    gpuperf.time(lambda: 5.0)

def test_raises(gpuperf):
    deep = lambda depth: deep(depth - 1) if depth else 1 / 0
    deep(40)

def test_asserts(gpuperf):
    gpuperf.time(lambda: 5.0)
    assert list(range(60)) == list(range(1, 61))

def test_misuses(gpuperf):
    gpuperf.time("no callable")

def test_limit(gpuperf):
    gpuperf.time(lambda: 5.0)
    gpuperf.limit(*(f"dram_throughput >= {number}" for number in range(1, 40)))

def test_aborts(gpuperf):
    os.abort()

def test_hangs(gpuperf):
    time.sleep(60)
"""
KINDS = ("raises", "asserts", "misuses", "limit", "aborts", "hangs")


def verdicts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(VERDICTS.read_bytes())
    jsonschema.validate(found, msgspec.json.schema(Verdicts))
    return found


def failures_of(output: list[str]) -> dict[str, list[str]]:
    """Return the lines below the title of each failure."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in output:
        if title := re.fullmatch(r"_{3,} (test_\w+) _{3,}", line):
            name = title[1]
        elif line.startswith(("===", "---")):
            name = ""
        elif name:
            found.setdefault(name, []).append(line)
    return found


def test_each_failure_has_at_most_ten_lines(pytester: pytest.Pytester, fake_gpu_runs: None) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(test_k=FAILURES)
    result = pytester.runpytest_subprocess(
        *("-p", "xdist", "-p", "fake_gpu", "--gpuperf", "--gpuperf-counters=off", "-o", "gpuperf_timeout=3"),
        *("--gpuperf-brief", f"--gpuperf-json={VERDICTS}"),
    )
    shown = failures_of(result.outlines)
    assert shown.keys() == {f"test_{kind}" for kind in KINDS}
    assert max(map(len, shown.values())) <= 10
    assert shown["test_raises"][0] == "ZeroDivisionError: division by zero"
    assert shown["test_raises"][-1] == "at test_k.py:7"
    assert shown["test_hangs"][0].startswith("gpuperf: this test took more than 3 s")
    assert shown["test_aborts"][0].startswith("gpuperf: this test ended its process by signal 6")
    summary = result.outlines[[at for at, line in enumerate(result.outlines) if " gpuperf " in line][-1] :]
    assert summary.index(next(line for line in summary if " short test summary " in line)) <= 11
    found = verdicts()
    assert (found["passed"], found["complete"]) == (False, True)
    assert {one["nodeid"].split("::test_")[1] for one in found["unjudged"]} >= {"raises", "aborts"}
    assert all(len(one["message"].splitlines()) <= 10 for one in (*found["unjudged"], *found["tests"]))


@pytest.mark.usefixtures("replay")
def test_verdicts_of_a_replay_are_written(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=f"{MEASURES}\ndef test_off(gpuperf): __import__('pytest').skip()\n")
    result = pytester.runpytest("--gpuperf", f"--gpuperf-json={VERDICTS}")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found = verdicts()
    assert found["skipped"] == ["test_k.py::test_off"]
    (test,) = found["tests"]
    assert (found["replayed"], found["passed"], found["counts"]) == (True, False, {"invalid": 1})
    assert (test["nodeid"], test["line"], test["fails"]) == ("test_k.py::test_k", 1, True)
    assert test["message"].startswith("gpuperf: ")


def test_each_test_has_the_environment_of_its_recording(
    pytester: pytest.Pytester, add_recording: AddRecording
) -> None:
    for number, name in enumerate(("old", "new")):
        kept = record(f"test_k.py::test_{name}", main=measured(9.0))
        gpu = replace(H200, dram_gb_per_s=4800.0 + number)
        add_recording(run(kept, id=name, started_at=f"2026-11-2{number}", gpu=gpu))
    pytester.makepyfile(test_k="def test_old(gpuperf): gpuperf.time(print)\ntest_new = test_old")
    pytester.runpytest("--gpuperf", f"--gpuperf-json={VERDICTS}").assert_outcomes(passed=2)
    found = verdicts()
    old, new = found["tests"]
    assert (found["run"], found["environment"]["gpu"]["dram_gb_per_s"]) == ("new", 4801.0)
    assert (old["environment"]["gpu"]["dram_gb_per_s"], new["environment"]) == (4800.0, None)


@pytest.mark.usefixtures("replay")
def test_ini_file_chooses_both(pytester: pytest.Pytester) -> None:
    pytester.makeini(f"[pytest]\ngpuperf_json = {VERDICTS}\ngpuperf_brief = yes\n")
    pytester.makepyfile(test_k="def test_k(gpuperf): gpuperf.time(lambda: None)")
    expect(pytester.runpytest("--gpuperf"), "0 of 1 judged test failed: 1 new", passed=1)
    assert verdicts()["passed"] is True


@pytest.mark.usefixtures("replay")
def test_refused_run_removes_older_verdicts_and_no_file_of_others(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=MEASURES)
    pytester.runpytest("--gpuperf", f"--gpuperf-json={VERDICTS}")
    assert VERDICTS.exists()
    refused = ("--gpuperf", f"--gpuperf-json={VERDICTS}", "--gpuperf-replay=nowhere")
    assert pytester.runpytest(*refused).ret == pytest.ExitCode.USAGE_ERROR
    assert not VERDICTS.exists()
    VERDICTS.write_text('{"schema": 1}')
    pytester.runpytest(*refused)
    assert VERDICTS.read_text() == '{"schema": 1}'


@pytest.mark.usefixtures("replay")
def test_unwritable_file_is_an_error_of_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=MEASURES)
    pytester.mkdir("folder")
    result = pytester.runpytest("--gpuperf", "--gpuperf-json=folder")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["gpuperf: error: *folder*"])


def test_json_replaces_no_file_of_somebody_else(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_nothing(gpuperf):\n    pass\n")
    VERDICTS.write_text('{"mine": 1}')
    result = pytester.runpytest("--gpuperf", f"--gpuperf-json={VERDICTS}")
    result.stdout.fnmatch_lines(["*verdicts.json exists and is not an output *; name another file"])
    assert VERDICTS.read_text() == '{"mine": 1}'
