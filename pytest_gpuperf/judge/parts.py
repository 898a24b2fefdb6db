"""Measured and compiled parts of a test or run, each with baselines of its own.

Compiled kernels need no GPU, so their baselines are in `baselines/static/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf import metrics as catalogue
from pytest_gpuperf.judge.result import Finding, Status
from pytest_gpuperf.records.baseline import MeasurementBaseline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.judge.limits import Limit
    from pytest_gpuperf.records import Measurement, TestRecord
    from pytest_gpuperf.records.baseline import TestBaseline


def split_record(record: TestRecord) -> tuple[TestRecord | None, TestRecord | None]:
    """Split a test into its measured and its compiled part; a test without either is the first."""
    static = {label: one for label, one in record.measurements.items() if one.is_static}
    if not static:
        return record, None
    rest = {label: one for label, one in record.measurements.items() if label not in static}
    compiled = msgspec.structs.replace(record, measurements=static)
    return (msgspec.structs.replace(record, measurements=rest) if rest else None), compiled


def split_limits(
    limits: Sequence[Limit], measured: TestRecord | None, compiled: TestRecord | None
) -> tuple[list[Limit], list[Limit]]:
    """Split limits into those for the measured and those for the compiled part of a test.

    If a test has only one part, all limits are for it. If it has both, each part is checked for the values
    that it has: registers are checked in both.
    """
    if measured is None or compiled is None:
        return list(limits), list(limits)
    names = {name for one in compiled.measurements.values() if one.profile for name in one.profile.combined}
    of_compiled = [limit for limit in limits if limit.name in names]
    of_measured = [limit for limit in limits if not limit.arch and limit.name not in catalogue.COMPILED_ONLY]
    return of_measured, of_compiled


def same_compiler(
    record: TestRecord, baseline: TestBaseline | None, hint: str
) -> tuple[TestBaseline | None, list[Finding]]:
    """Remove from a baseline the kernels of another compiler, which are other kernels.

    Args:
        record: The compiled part of a test.
        baseline: Its baseline.
        hint: Command to type to accept the compiled kernels.

    Returns:
        The rest of the baseline, and a finding for each kernel that was removed.
    """
    if baseline is None:
        return None, []
    measurements = dict(baseline.measurements)
    findings = []
    for label, known in baseline.measurements.items():
        before, now = known.counters.get("compiler"), _compiler(record.measurements.get(label))
        if now and before and now != before:
            measurements[label] = MeasurementBaseline()
            line = f"compiled by {now}, the baseline by {before}: another kernel, not compared; {hint}"
            findings.append(Finding(Status.NEW, line, label))
    return msgspec.structs.replace(baseline, measurements=measurements), findings


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


def _compiler(measurement: Measurement | None) -> object:
    return measurement.profile.combined.get("compiler") if measurement and measurement.profile else None
