"""`gpuperf export`."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import math
import re
import sys
from typing import TYPE_CHECKING

import msgspec
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuperf.cli import main
from pytest_gpuperf.features.export.frame import to_frame
from pytest_gpuperf.features.export.row_files import to_csv, to_json
from pytest_gpuperf.records import KernelProfile, Measurement, Profile
from pytest_gpuperf.records.runs import RunStore
from run_builders import NODEID, measured, one_test, record, run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.records import Run


def export(project: Path, exported: Run, *args: str) -> Result:
    RunStore(project / ".gpuperf").write(exported)
    return CliRunner().invoke(main, ["export", exported.id, *args])


def test_csv_on_standard_output_is_the_frame(project: Path) -> None:
    one = one_test(counters={"occupancy_limiter": "registers"})
    result = export(project, one, "--format", "csv")
    read = pd.read_csv(io.StringIO(result.stdout), keep_default_na=False, na_values={"value": [""]})
    frame = to_frame(one)
    assert list(read.columns) == list(frame.columns)
    for column in ("nodeid", "metric", "mode", "value", "unit", "text"):
        assert read[column].equals(frame[column].astype(read[column].dtype))


def test_json_is_a_list_of_rows(project: Path) -> None:
    rows = json.loads(export(project, one_test(), "--format", "json").stdout)
    (time,) = [row for row in rows if row["metric"] == "time_us"]
    assert (time["nodeid"], time["value"], time["launch"], time["failed"]) == (NODEID, 5.3, None, False)
    assert time["date"].startswith("2026-11-20T17:30:12")


def test_output_option_writes_a_file(project: Path) -> None:
    result = export(project, one_test(), "--format", "csv", "-o", "out/run.csv")
    assert result.output == "wrote out/run.csv (1 test)\n"
    assert (project / "out/run.csv").read_text().startswith("nodeid,label,kernel")


def test_parquet_reads_back_as_the_frame(project: Path) -> None:
    pytest.importorskip("pyarrow")
    one = one_test(counters={"occupancy_limiter": "registers", "waves": 2.0})
    assert export(project, one, "--format", "parquet", "-o", "run.parquet").exit_code == 0
    pd.testing.assert_frame_equal(pd.read_parquet("run.parquet"), to_frame(one), check_dtype=False)


def test_parquet_without_pyarrow_says_what_to_install(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *args: None if name == "pyarrow" else find(name, *args)
    )
    result = export(project, one_test(), "--format", "parquet", "-o", "run.parquet")
    assert result.exit_code == 2
    assert "pip install pyarrow" in result.stderr
    assert not (project / "run.parquet").exists()


def test_parquet_needs_a_file(project: Path) -> None:
    result = export(project, one_test(), "--format", "parquet")
    assert result.exit_code == 2
    assert "add -o FILE" in result.stderr


HOSTILE = "\x1b[31m\n::error::gone\r ::set-env name=A::\x9b\u202e##[error]"


def test_terminal_and_log_get_no_commands(project: Path) -> None:
    bad = run(record(f"::error::{HOSTILE}", main=measured(counters={"waves": 1.0, HOSTILE: 2.0})))
    for form in ("csv", "json"):
        shown = export(project, bad, "--format", form)
        assert shown.exit_code == 0, shown.output
        assert commands_in(shown.stdout) == []
    rows = json.loads(export(project, bad, "--format", "json").stdout)
    assert {row["nodeid"] for row in rows} == {f"::error::{HOSTILE}"}


def commands_in(output: str) -> list[str]:
    """Return the lines that a terminal or GitHub's runner would execute."""
    lines = re.split(r"\r\n|\r|\n", output)
    return [
        line
        for line in lines
        if line.strip().startswith("::") or "##[" in line or not line.replace("\t", "").isprintable()
    ]


@pytest.mark.parametrize("redirected", [True, False])
def test_csv_in_a_file_is_the_data(project: Path, monkeypatch: pytest.MonkeyPatch, redirected: bool) -> None:
    RunStore(project / ".gpuperf").write(run(record(f"t.py::{HOSTILE}", main=measured())))
    path = project / "out.csv"
    if redirected:
        with path.open("w", newline="") as file:
            monkeypatch.setattr(sys, "stdout", file)
            main(["export", "--format", "csv"], standalone_mode=False)
    else:
        main(["export", "--format", "csv", "-o", str(path)], standalone_mode=False)
    with path.open(newline="") as file:
        assert next(csv.DictReader(file))["nodeid"] == f"t.py::{HOSTILE}"


@given(
    texts=st.lists(st.text(max_size=6), min_size=2, max_size=2),
    value=st.floats(),
    commit=st.sampled_from(["", "c0ffee"]),
    dirty=st.sampled_from([True, False, None]),
    started_at=st.sampled_from(["2026-11-20T17:30:12Z", "2026-11-20T17:30:12+02:00", "yesterday", ""]),
)
@settings(deadline=None, max_examples=15)  # the first example imports pandas
def test_rows_equal_the_frame(
    texts: list[str], value: float, commit: str, dirty: bool | None, started_at: str
) -> None:
    profile = Profile(kernels=(KernelProfile(name=texts[0], metrics={"waves": value, "x": texts[1]}),))
    one = run(record(texts[1], main=Measurement(profile=profile)), started_at=started_at)
    environment = msgspec.structs.replace(one.environment, commit=commit, dirty=dirty)
    one = msgspec.structs.replace(one, environment=environment)
    frame = to_frame(one)
    assert to_csv(one).decode() == frame.to_csv(index=False, lineterminator="\n")
    read = json.loads(to_json(one))
    assert [row["text"] for row in read] == list(frame.text)
    assert [row["value"] for row in read] == [None if not math.isfinite(v) else v for v in frame.value]
    assert [row["launch"] for row in read] == [None if v is pd.NA else v for v in frame.launch]
