"""Diagnoses of the call and the kernels of a measurement, as rows of a report."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from pytest_gpuperf.features.explain.diagnosis import diagnose, diagnose_call, lines_of
from pytest_gpuperf.features.explain.report import CALL, Explained, ExplainedMeasurement
from pytest_gpuperf.features.ncu.launches import groups_of, launch_place
from pytest_gpuperf.features.ncu.report_file import ReportKernel
from pytest_gpuperf.metrics.chips import chip_of
from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.records import KernelProfile, Measurement, TestRecord, Timing, Trace

SHOWN_KERNELS = 20
"""Maximum number of launches of a call or file to explain; the longest ones are kept."""

SHOWN = 3
"""Maximum number of diagnoses of a kernel below a failed test."""
WORTH_SHOWING_PCT = 20.0
"""Minimum share of the time for a kernel to have lines of its own below a failed test."""


def explain_lines(measurement: Measurement) -> tuple[str, ...]:
    """Return the diagnosis of a call and its kernels, for below a failed test.

    Args:
        measurement: The recorded measurement.

    Returns:
        A line for each diagnosis and an indented one with the next step; nothing without counters and
        kernel table.
    """
    lines = lines_of(diagnose_call(measurement.trace)) if measurement.trace else []
    rows, _ = _of_kernels(measurement, None)
    for row in rows:
        if row.share_pct is not None and row.share_pct < WORTH_SHOWING_PCT:
            continue
        if row.diagnoses and len(rows) > 1:
            share = "" if row.share_pct is None else f", {row.share_pct:.0f} % of the time"
            lines.append(printable(f"{row.title}{share}:"))
        lines += lines_of(row.diagnoses[:SHOWN])
    return tuple(lines)


def explain_measurement(
    test: TestRecord, label: str, *, regex: str | None = None
) -> ExplainedMeasurement | None:
    """Explain the call and the kernels of one measurement; None without counters and kernel table.

    Args:
        test: The test.
        label: The label of the measurement.
        regex: Found in the names of the kernels to explain; None for the call and all kernels.
    """
    measurement = test.measurements[label]
    shown, left_out = _of_kernels(measurement, regex)
    trace = measurement.trace if regex is None else None
    rows = [*([_of_call(trace)] if trace is not None else []), *shown]
    return ExplainedMeasurement(test.nodeid, label, rows, left_out) if rows else None


def _of_kernels(measurement: Measurement, regex: str | None) -> tuple[list[Explained], int]:
    profile = measurement.profile
    if profile is None or profile.unavailable or measurement.is_static:
        return [], 0
    kernels = profile.kernels if regex is None else _chosen(profile.kernels, regex)
    timing = measurement.timing if len(profile.kernels) == 1 else None
    return explain_kernels(kernels, profile.chip, timing)


def explain_kernels(
    kernels: Sequence[KernelProfile], chip: str = "", timing: Timing | None = None
) -> tuple[list[Explained], int]:
    """Explain the longest kernels, in the order of their launches; count the launches that are left out."""
    groups = [group for group in groups_of(kernels) if not group.failed]
    total_us = sum(group.total_us for group in groups)
    names = Counter(group.first.name for group in groups)
    places = {id(one): launch_place(one, index) for index, one in enumerate(kernels)}
    longest = sorted(range(len(groups)), key=lambda i: -groups[i].total_us)[:SHOWN_KERNELS]
    rows = []
    for i in sorted(longest):
        group = groups[i]
        kernel = group.typical
        durations = group.durations_us
        share_pct = 100 * group.total_us / total_us if durations and len(groups) > 1 and total_us else None
        both = f"{kernel.name} {kernel.demangled}"
        found = diagnose(kernel.metrics, name=both, chip=chip or _chip_of(kernel), timing=timing)
        unknown = "unknown: too few counters were measured"
        name = group.first.name
        place = places[id(group.first)] if names[name] > 1 else None
        rows.append(Explained(name, found, unknown, durations, group.count, share_pct, place))
    return rows, sum(group.count for i, group in enumerate(groups) if i not in longest)


def _of_call(trace: Trace) -> Explained:
    share = trace.gpu_busy_pct
    busy = "not all kernels were recorded" if share is None else f"the GPU is busy {share:.0f} % of it"
    span_us = trace.span_us
    return Explained(CALL, diagnose_call(trace), busy, (span_us, span_us, span_us))


def _chosen(kernels: Iterable[KernelProfile], regex: str) -> list[KernelProfile]:
    return [
        kernel
        for kernel in kernels
        if any(re.search(regex, name) for name in (kernel.name, kernel.demangled))
    ]


def _chip_of(kernel: KernelProfile) -> str:
    """Return the name of the chip that a launch ran on; empty if unknown."""
    chip = chip_of(kernel.compute_capability) if isinstance(kernel, ReportKernel) else None
    return chip.name if chip is not None else ""
