"""`gpuperf schema`: what is written validates, and what is broken does not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from jsonschema.exceptions import best_match
from msgspec.structs import replace

from history_builders import line, times
from pytest_gpuperf.baseline.history.lines import encode_line
from pytest_gpuperf.baseline.history.store import FolderStore
from pytest_gpuperf.baseline.judged import judge_run
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.cli import main
from pytest_gpuperf.cli.schema_command import SCHEMAS, schema
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records import ClockModel, Correctness, Measurement
from pytest_gpuperf.records.runs import RunStore, encode_run, newest_recordings
from pytest_gpuperf.report.rows import Summary
from pytest_gpuperf.report.verdicts import End, encode_verdicts, verdicts_of
from report_examples import ENVIRONMENT, result
from run_builders import measured, one_test, record, run
from trace_builders import BLOCK

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "tests" / "data" / "captures"
BASELINES = sorted((ROOT / "baselines").glob("*/*.json"))
FEW = 8
"""Tests of a file that are validated: the validator takes a second for a hundred."""


def problems(name: str, document: Any) -> list[str]:
    found = jsonschema.Draft202012Validator(schema(name)).iter_errors(document)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def command(*arguments: str) -> Any:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_valid_and_describes_its_fields(name: str) -> None:
    printed = command("schema", name)
    jsonschema.Draft202012Validator.check_schema(printed)
    assert printed["$defs"]


def test_list_names_every_schema() -> None:
    assert [row["name"] for row in command("schema", "--json")] == list(SCHEMAS)


def test_ranges_and_docstrings_of_fields_are_in_the_schema() -> None:
    timing = schema("run")["$defs"]["Timing"]["properties"]
    assert timing["time_us"] == {
        "description": "20 % trimmed mean over the blocks, in microseconds a call.",
        "type": "number",
        "minimum": 1e-6,
        "maximum": 1e12,
    }


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


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("time_us", -1.0, "-1.0 is less than the minimum of 1e-06"),
        ("time_us", "fast", "'fast' is not of type 'number'"),
        ("mode", "lukewarm", "'lukewarm' is not one of"),
        ("blocks_mhz", [20_000.0], "20000.0 is greater than the maximum of 10000"),
    ],
)
def test_broken_run_does_not_validate(key: str, value: object, complaint: str) -> None:
    document = json.loads(encode_run(one_test()))
    document["tests"][0]["measurements"]["main"]["timing"][key] = value
    errors = jsonschema.Draft202012Validator(schema("run")).iter_errors(document)
    found = best_match(errors)
    assert found is not None
    assert complaint in found.message


@pytest.mark.parametrize("name", ["run", "baseline", "verdict"])
def test_file_without_a_version_does_not_validate(name: str) -> None:
    assert "$: 'schema' is a required property" in problems(name, {})


def test_line_of_a_history_validates() -> None:
    model = ClockModel(cycles=9000.0, fixed_us=0.0, reference_mhz=1800.0)
    whole = line(0, 5.0, sm_clock_mhz=1800.0, normalised_us=5.0, clock_model=model, dirty=True)
    for one in (line(0), whole):
        assert problems("history-line", json.loads(encode_line(one))) == []


def test_verdicts_of_a_recording_validate() -> None:
    recording = newest_recordings(ROOT / "baselines")[0]
    results = judge_run(
        replace(recording, tests=recording.tests[:FEW]),
        BaselineStore(ROOT / "baselines", state=ROOT / ".gpuperf"),
    )
    summary = Summary(results, recording.environment, recording)
    document = json.loads(encode_verdicts(verdicts_of(summary, End(complete=True, status=0))))
    assert problems("verdict", document) == []
    assert len(document["tests"]) == FEW
    assert document["passed"] is True


def test_verdicts_of_every_status_validate() -> None:
    results = [
        *(result(f"t.py::test_{status.value}", status, line="why", failure="") for status in Status),
        result("t.py::test_raised", failure="ValueError"),
    ]
    notices = ["error: a test ended its process"]
    summary = Summary(results, ENVIRONMENT, None, notices=notices, lines={"t.py::test_pass": 3})
    end = End(complete=False, status=1, failed={"t.py::test_crashed": "gpuperf: died\n" * 30})
    document = json.loads(encode_verdicts(verdicts_of(summary, end, "20261122-235542-f916")))
    assert problems("verdict", document) == []
    assert (document["passed"], document["run"]) == (False, "20261122-235542-f916")
    assert [one["nodeid"] for one in document["unjudged"]] == ["t.py::test_crashed"]
    failing = {test["nodeid"] for test in document["tests"] if test["fails"]}
    assert failing == {
        *(f"t.py::test_{status.value}" for status in Status if status.fails),
        "t.py::test_raised",
    }
    assert all(len(test["message"].splitlines()) <= 10 for test in document["tests"])


@pytest.fixture
def runs(project: Path) -> Path:
    """Store two runs with a baseline for one of their tests, and files from ncu."""
    store = RunStore(project / ".gpuperf")
    first = run(
        record("t.py::test_a[1]", main=measured(5.3, {"registers_per_thread": 32.0})),
        record("t.py::test_a[2]", main=Measurement(trace=BLOCK)),
    )
    store.write(replace(first, id="20261120-100000-aaaa"))
    store.write(replace(first, id="20261121-100000-bbbb"))
    packed = (CAPTURES / "torch_mixed_raw_wide.csv.gz").read_bytes()
    (project / "raw.csv").write_bytes(gzip.decompress(packed))
    levels = [5.0] * 6 + [5.2] * 6
    FolderStore(project / "perf-history").add([*times(*levels), *times(*levels, label="cold", dirty=None)])
    return project


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("baseline-diff", ("baseline", "diff", "20261120", "--json")),
        ("baseline-diff", ("baseline", "accept", "20261120", "--json")),
        ("baseline-status", ("baseline", "status", "--json")),
        ("clean", ("clean", "--keep", "1", "--json")),
        ("compare", ("compare", "20261120", "20261121", "--json")),
        ("compare", ("ncu", "raw.csv", "--compare", "raw.csv", "--preset", "sol", "--json")),
        ("doctor", ("doctor", "--json")),
        ("explain", ("explain", "--json")),
        ("explain", ("explain", "raw.csv", "--json")),
        ("export", ("export", "--format", "json")),
        ("history-check", ("history", "check", "--json")),
        ("history-show", ("history", "show", "--json")),
        ("history-show-test", ("history", "show", "test_triton", "--json")),
        ("metrics", ("metrics", "--json")),
        ("metrics", ("metrics", "--chip", "gh100", "--preset", "sol", "--json")),
        ("ncu", ("ncu", "raw.csv", "--preset", "sol", "--json")),
        ("trace", ("trace", "--json")),
    ],
    ids=lambda one: one if isinstance(one, str) else " ".join(one[:2]),
)
def test_json_of_commands_validates(
    runs: Path, monkeypatch: pytest.MonkeyPatch, name: str, arguments: tuple[str, ...]
) -> None:
    monkeypatch.delenv("CI", raising=False)
    document = command(*arguments)
    assert document
    assert problems(name, document) == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("break-even", ("break-even", "::test_full", "::test_reduced", "--x", "1", "--json")),
        ("recording-list", ("recording", "list", "--json")),
        ("baseline-status", ("baseline", "status", "--json")),
    ],
)
def test_json_about_the_repository_validates(name: str, arguments: tuple[str, ...]) -> None:
    assert problems(name, command(*arguments, "--root", str(ROOT))) == []


def test_json_of_another_command_does_not_validate(runs: Path) -> None:
    document = command("compare", "20261120", "20261121", "--json")
    assert problems("explain", document)
    del document["lines"][0]["cells"][0]["value"]
    assert problems("compare", document) == ["$.lines[0].cells[0]: 'value' is a required property"]
