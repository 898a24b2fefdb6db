"""A run as a data frame: `to_frame`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.features.export.data_frame import to_frame
from pytest_gpuperf.records import KernelProfile, Measurement, Profile
from run_builders import NODEID, measured, one_test, profile, record, run

if TYPE_CHECKING:
    from pytest_gpuperf.records import MetricValue, Run


def row(frame: pd.DataFrame, metric: str, kernel: str = "") -> dict[str, object]:
    found = frame[(frame.metric == metric) & (frame.kernel == kernel)]
    assert len(found) == 1
    return {str(name): value for name, value in found.iloc[0].items()}


def test_each_metric_has_a_row_with_its_unit() -> None:
    frame = to_frame(one_test(counters={"registers_per_thread": 32.0, "dram__bytes_read.sum": 7.0}))
    assert set(frame.nodeid) == {NODEID}
    units = {name: row(frame, name)["unit"] for name in ("time_us", "spread_pct", "registers_per_thread")}
    assert units == {"time_us": "us", "spread_pct": "%", "registers_per_thread": "register"}
    assert row(frame, "dram__bytes_read.sum")["unit"] == ""
    assert row(frame, "dram__bytes_read.sum")["value"] == 7.0


def test_every_row_names_its_run() -> None:
    frame = to_frame(one_test())
    assert set(frame.run) == {"20261120-173012-3f9a"}
    assert set(frame.gpu) == {"NVIDIA H200"}
    assert set(frame.commit) == {"c0ffee1234"}
    assert set(frame.date) == {pd.Timestamp("2026-11-20T17:30:12Z")}
    assert set(frame.dirty) == {False}


def test_launches_of_one_kernel_have_numbers() -> None:
    kernels = tuple(KernelProfile(name="k", metrics={"waves": float(n)}) for n in range(2))
    frame = to_frame(run(record(main=Measurement(profile=Profile(kernels=kernels, combined={"waves": 1.0})))))
    assert list(frame.kernel) == ["", "k", "k"]
    assert list(frame.launch.dropna()) == [0, 1]
    assert not frame.duplicated(["nodeid", "label", "kernel", "launch", "metric"]).any()


@pytest.mark.parametrize("bad", [run(record(failure="Error", main=measured())), one_test(correct=False)])
def test_rows_of_a_failed_test_are_marked(bad: Run) -> None:
    assert to_frame(bad).failed.all()
    assert not to_frame(one_test()).failed.any()


def test_empty_run_has_the_same_columns_and_types() -> None:
    empty, full = to_frame(run()), to_frame(one_test(counters={"sm_throughput": 90.0}))
    assert len(empty) == 0
    assert list(empty.columns) == list(full.columns)
    numbers = ["value", "launch", "failed", "date", "dirty"]
    assert empty.dtypes[numbers].to_dict() == full.dtypes[numbers].to_dict()


@given(st.dictionaries(st.text(), st.floats(allow_nan=False) | st.text(min_size=1)))
def test_no_counter_is_lost(counters: dict[str, MetricValue]) -> None:
    frame = to_frame(run(record(main=Measurement(profile=profile(counters)))))
    rows = zip(frame.metric, frame.value, frame.text, strict=True)
    assert {metric: text or value for metric, value, text in rows} == counters
