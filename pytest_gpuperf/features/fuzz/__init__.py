"""Checks of a callable on shapes, types and strides that Hypothesis draws, and the smallest one that fails.

Measures for `gpuperf.fuzz()` of the core, by `fuzz`. Name: `pytest_gpuperf.FuzzCase`.
Record part: `Measurement.fuzz`, whose type is in `records/fuzzing.py`, since verdicts and reports have it.
Extra: `fuzz` (Hypothesis).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.instruments["fuzz"] = "pytest_gpuperf.features.fuzz.fuzz"
    registry.names["FuzzCase"] = "pytest_gpuperf.features.fuzz.case"
