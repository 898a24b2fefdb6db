"""Diagnoses of calls and kernels, and their lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.features.explain.call_evidence import evidence_of
from pytest_gpuperf.features.explain.diagnosis import Diagnosis, diagnose
from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.records import KernelProfile, Timing, Trace


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
