"""`gpuperf export --schema`: what is written validates, and what is broken does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from command_line import gpuperf
from pytest_gpuperf.features.export.file_schemas import FILES, schema
from pytest_gpuperf.features.export.verdict_json import encode_verdicts, verdicts_of
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records import Correctness, Measurement
from pytest_gpuperf.records.run_store import encode_run, newest_recordings
from pytest_gpuperf.report.rows import Summary
from pytest_gpuperf.session.run_report import End
from report_examples import ENVIRONMENT, result
from run_builders import one_test, record, run

ROOT = Path(__file__).parents[3]
BASELINES = sorted((ROOT / "baselines").glob("*/*.json"))
FEW = 8
"""Tests of a file that are validated: the validator takes a second for a hundred."""


def problems(name: str, document: Any) -> list[str]:
    found = jsonschema.Draft202012Validator(schema(name)).iter_errors(document)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


@pytest.mark.parametrize("name", FILES)
def test_printed_schema_is_valid(name: str) -> None:
    printed = json.loads(gpuperf("export", "--schema", name).stdout)
    jsonschema.Draft202012Validator.check_schema(printed)
    assert printed["$defs"]
    assert "exclude" in gpuperf("export", "--schema", name, "-o", "x", status=2).output


@pytest.mark.parametrize("recording", newest_recordings(ROOT / "baselines"), ids=lambda one: one.id)
def test_recordings_validate(recording: Any) -> None:
    some = recording.tests[:: max(1, len(recording.tests) // FEW)]
    assert problems("run", json.loads(encode_run(replace(recording, tests=some)))) == []


@pytest.mark.parametrize("path", BASELINES, ids=lambda path: path.stem)
def test_baselines_validate(path: Path) -> None:
    document = json.loads(path.read_bytes())
    document["tests"] = dict(list(document["tests"].items())[:FEW])
    assert problems("baseline", document) == []


def test_differences_that_are_not_finite_validate() -> None:
    wrong = Correctness(passed=False, max_abs_diff=float("nan"), max_rel_diff=float("inf"))
    document = json.loads(encode_run(run(record("t.py::test_a", main=Measurement(correctness=wrong)))))
    assert document["tests"][0]["measurements"]["main"]["correctness"]["max_abs_diff"] == "nan"
    assert problems("run", document) == []


@pytest.mark.parametrize(("key", "value"), [("time_us", -1.0), ("time_us", "fast"), ("mode", "lukewarm")])
def test_broken_run_does_not_validate(key: str, value: object) -> None:
    document = json.loads(encode_run(one_test()))
    document["tests"][0]["measurements"]["main"]["timing"][key] = value
    assert problems("run", document)


def test_verdicts_of_every_status_validate() -> None:
    results = [result(f"t.py::test_{status.value}", status, line="why") for status in Status]
    notices = ["error: a test ended its process"]
    summary = Summary(
        results,
        ENVIRONMENT,
        None,
        notices=notices,
        lines={"t.py::test_pass": 3},
        folder=Path("20261122-235542-f916"),
    )
    end = End(complete=False, status=1, failed={"t.py::test_crashed": "gpuperf: died\n" * 30})
    document = json.loads(encode_verdicts(verdicts_of(summary, end)))
    assert problems("verdict", document) == []
    assert (document["passed"], document["run"]) == (False, "20261122-235542-f916")
    assert [one["nodeid"] for one in document["unjudged"]] == ["t.py::test_crashed"]
    failing = {test["nodeid"] for test in document["tests"] if test["fails"]}
    assert failing == {f"t.py::test_{status.value}" for status in Status if status.fails}
    assert all(len(test["message"].splitlines()) <= 10 for test in document["tests"])
