"""Diagnosis of a kernel or a call: its bound, the causes and the next thing to try, by rules with sources.

Command: `gpuperf explain`, for runs and files of ncu.
Adds an explanation below the first broken limit of a label, and to `gpuperf trace`.
A rule is a function in `bottleneck_rules` or `cause_rules`, below its condition.
Public to other features: `diagnosis_rows` and `report`, for details of the HTML page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.records import Measurement
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["explain"] = "pytest_gpuperf.features.explain.command"
    registry.explanations.append(_lines)


def _lines(measurement: Measurement) -> tuple[str, ...]:
    from pytest_gpuperf.features.explain.diagnosis_rows import explain_lines

    return explain_lines(measurement)
