"""A run as a data frame in long form: one number or word per row, for notebooks and dashboards."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.records.value_names import VALUES, is_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from pytest_gpuperf.records import (
        ClockModel,
        Conditions,
        Correctness,
        MetricValue,
        Profile,
        Run,
        SingleCall,
        Timing,
        TimingSource,
        Trace,
    )

_CORRECTNESS = {"max_abs_diff": "", "max_rel_diff": "", "mismatched": "element"}
_TIMING = {
    **{name: value.unit for name, value in VALUES.items() if is_of(name, "timing")},
    "normalised_us": "us",
}
_SINGLE_CALL = {"kernels_us": "us", "host_us": "us", "host_copies_us": "us"}
_CLOCK_MODEL = {"sm_clock_share": "", "reference_mhz": "MHz"}
_TRACED_KERNEL = {
    "calls": "",
    "total_us": "us",
    "mean_us": "us",
    "share_pct": "%",
    "blocks_per_sm": "block",
    "waves": "",
    "registers_per_thread": "register/thread",
    "shared_memory_bytes": "byte",
    "theoretical_occupancy_pct": "%",
    "tensor_cores": "",
}
_CONDITIONS = {"sm_clock_mhz": "MHz", "memory_clock_mhz": "MHz", "temperature_c": "degC", "power_w": "W"}


Entry: TypeAlias = tuple[str, "int | None", str, str, "float | None", str, str]
"""One row without its test and run: kernel, launch, metric, mode, value, unit and text."""
COLUMNS = (
    *("nodeid", "label", "kernel", "launch", "metric", "mode", "value", "unit", "text", "failed"),
    *("run", "date", "gpu", "commit", "dirty"),
)


def to_frame(run: Run) -> pd.DataFrame:
    """Return a run as a data frame, one row for each test, label, kernel launch and metric.

    Columns: `nodeid`; `label`; `kernel` (empty for the combined row of all kernels, and for values without a
    kernel); `launch` (place of the kernel in launch order, from 0; for a traced kernel in the table of its
    trace); `metric` (metrics of a traced kernel begin with `trace.`); `mode` (of a time, which is comparable
    only with times of the same mode); `value`; `unit` (empty for a pure number and for raw ncu metrics);
    `text` (the word if the metric is one; `value` is then NaN); `failed` (True if the test ended with an
    exception or had a wrong result); and in all rows `run`, `date` (UTC), `gpu`, `commit` and `dirty`.
    """
    import pandas as pd

    frame: pd.DataFrame = pd.DataFrame(rows(run), columns=list(COLUMNS))
    # The types of the columns do not depend on the run, which may be empty.
    frame = frame.astype({"launch": "Int64", "value": "float64", "failed": "bool", "dirty": "boolean"})
    frame["date"] = pd.to_datetime(run.started_at, utc=True, errors="coerce")
    return frame


def rows(run: Run) -> Iterator[tuple[object, ...]]:
    """Yield a row for each value of a run, with `COLUMNS`."""
    environment = run.environment
    of_run = (run.id, run.started_at, environment.gpu.name, environment.commit, environment.dirty)
    for test in run.tests:
        for label, measured in test.measurements.items():
            failed = bool(test.failure) or measured.is_wrong
            entries: list[Entry] = []
            if measured.correctness is not None:
                entries += _numbers(measured.correctness, _CORRECTNESS)
            if measured.accuracy is not None:
                entries += _values(measured.accuracy.values)
            if (timing := measured.timing) is not None:
                entries += _numbers(timing, _TIMING, timing.mode)
                entries += _by_source(timing)
                entries += _numbers(timing.single_call, _SINGLE_CALL, timing.mode)
                entries += _numbers(timing.clock_model, _CLOCK_MODEL, timing.mode)
                entries += _numbers(timing.conditions, _CONDITIONS, timing.mode)
            if measured.profile is not None:
                entries += _counters(measured.profile)
            if measured.trace is not None:
                entries += _traced(measured.trace)
            for entry in entries:
                yield test.nodeid, label, *entry, failed, *of_run


def _numbers(
    record: Correctness | Timing | SingleCall | ClockModel | Conditions | None,
    units: Mapping[str, str],
    mode: str = "",
) -> Iterator[Entry]:
    for name, unit in units.items():
        value = getattr(record, name, None)
        # A time that was not measured is 0.
        if value is not None and (value or not name.endswith("_us")):
            yield "", None, name, mode, _number(value), unit, ""


def _by_source(timing: Timing) -> Iterator[Entry]:
    sources: tuple[TimingSource, ...] = ("events", "cupti")
    for source in sources:
        if (time_us := timing.us_by(source)) is not None:
            yield "", None, f"{source}_us", timing.mode, _number(time_us), "us", ""


def _values(values: Mapping[str, float]) -> Iterator[Entry]:
    for name, value in values.items():
        yield "", None, name, "", _number(value), VALUES[name].unit, ""


def _traced(trace: Trace) -> Iterator[Entry]:
    yield from _values(trace.values)
    for place, kernel in enumerate(trace.kernels):
        yield kernel.name, place, "trace.kernel_class", "", None, "", kernel.kernel_class
        for name, unit in _TRACED_KERNEL.items():
            value = getattr(kernel, name)
            if value is not None:
                yield kernel.name, place, f"trace.{name}", "", _number(value), unit, ""


def _counters(profile: Profile) -> Iterator[Entry]:
    yield from _metrics("", None, profile.combined)
    for launch, kernel in enumerate(profile.kernels):
        yield from _metrics(kernel.name, launch, kernel.metrics)


def _metrics(kernel: str, launch: int | None, metrics: Mapping[str, MetricValue]) -> Iterator[Entry]:
    for name, value in metrics.items():
        unit = METRICS[name].unit if name in METRICS else ""
        number, word = (None, value) if isinstance(value, str) else (_number(value), "")
        yield kernel, launch, name, "", number, unit, word


def _number(value: float) -> float | None:
    """Return a number as a float; None, as a missing one, if it is not a number."""
    return None if math.isnan(value) else float(value)
