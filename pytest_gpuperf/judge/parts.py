"""Measured and compiled parts of a test, each with baselines of its own.

Compiled kernels need no GPU, so their baselines are in `baselines/static/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.records import Measurement, TestRecord
    from pytest_gpuperf.records.baseline import MeasurementBaseline


def split_record(record: TestRecord) -> tuple[dict[str, Measurement], dict[str, Measurement]]:
    """Split the measurements of a test, by label, into those of a GPU and those of a compiler."""
    static = {label: one for label, one in record.measurements.items() if one.is_static}
    return {label: one for label, one in record.measurements.items() if label not in static}, static


def other_compiler(now: Measurement, known: MeasurementBaseline) -> str:
    """Say that a kernel is of another compiler than its baseline, so another kernel; else empty."""
    before = known.counters.get("compiler")
    compiler = now.profile.combined.get("compiler") if now.profile is not None else None
    if not before or not compiler or before == compiler:
        return ""
    return f"compiled by {compiler}, the baseline by {before}: another kernel, not compared"


def unmeasured(known: MeasurementBaseline, found: Measurement) -> list[str]:
    """Return the parts of a baseline that a test did not measure: nothing guards them any more."""
    # A profile without counters tells why the machine has none.
    parts = {
        "time": (known.time, found.timing),
        "counters": (known.counters, found.profile),
        "trace": (known.trace, found.trace),
        "accuracy": (known.accuracy, found.correctness),
    }
    return [name for name, (before, now) in parts.items() if before and now is None]
