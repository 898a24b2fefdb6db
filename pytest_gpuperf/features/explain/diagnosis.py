"""Diagnoses of calls and kernels, and their lines of text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_gpuperf.features.explain.call_evidence import evidence_of
from pytest_gpuperf.features.explain.rules import Diagnosis, diagnose
from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.records import KernelProfile, Measurement, Timing, Trace

SHOWN = 3
"""Maximum number of diagnoses of a kernel below a failed test."""
WORTH_SHOWING = 0.2
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
    profile = measurement.profile
    if profile is None or profile.unavailable:
        return tuple(lines)
    shares = shares_of_time(profile.kernels)
    for kernel, share in zip(profile.kernels, shares, strict=True):
        if share < WORTH_SHOWING:
            continue
        alone = len(profile.kernels) == 1
        timing = measurement.timing if alone else None
        found = diagnose_kernel(kernel, profile.chip, timing)[:SHOWN]
        if found and not alone:
            lines.append(printable(f"{kernel.name}, {100 * share:.0f} % of the time:"))
        lines += lines_of(found)
    return tuple(lines)


def diagnose_kernel(
    kernel: KernelProfile, chip: str = "", timing: Timing | None = None
) -> tuple[Diagnosis, ...]:
    """Diagnose one launch.

    Args:
        kernel: Its counters.
        chip: Name of the GPU's chip; empty if not known.
        timing: The time of a call that launches nothing else.
    """
    name = f"{kernel.name} {kernel.demangled}".strip()
    return diagnose(kernel.metrics, name=name, chip=chip, timing=timing)


def diagnose_call(trace: Trace) -> tuple[Diagnosis, ...]:
    """Diagnose a call by its kernel table.

    Args:
        trace: Of the call.
    """
    values, products = evidence_of(trace)
    return diagnose(values, name=products)


def lines_of(diagnoses: Sequence[Diagnosis]) -> list[str]:
    """Return a line for each diagnosis, and one below it for the next step."""
    return [
        printable(line)
        for diagnosis in diagnoses
        for line in (str(diagnosis), f"  next: {diagnosis.next_step}")
    ]


def shares_of_time(kernels: Sequence[KernelProfile]) -> list[float]:
    """Return each launch's share of the time, from 0 to 1.

    A launch without a time has no share; all shares are equal if no time is known.
    """
    known = [kernel.metrics.get("duration_us") for kernel in kernels]
    times = [float(time) if isinstance(time, (int, float)) else 0.0 for time in known]
    total = math.fsum(times)
    return [time / total if total else 1 / len(kernels) for time in times]
