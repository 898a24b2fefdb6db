"""`gpuperf export`."""

from __future__ import annotations

import csv
import json
import math
import sys
from typing import TYPE_CHECKING

import msgspec
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuperf.cli import main
from pytest_gpuperf.features.export.data_frame import to_frame
from pytest_gpuperf.features.export.row_files import to_csv, to_json
from pytest_gpuperf.records import KernelProfile, Measurement, Profile
from pytest_gpuperf.records.run_store import RunStore
from run_builders import measured, record, run

if TYPE_CHECKING:
    from pathlib import Path


HOSTILE = "\x1b[31m\n::error::gone\r ::set-env name=A::\x9b\u202e##[error]"


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
