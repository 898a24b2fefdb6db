"""Kernel tables of runs and of traces from torch.profiler: ranks, GPUs, steps, and two next to each other.

Command: `gpuperf trace`.
The values of a trace are part of records and limits; they come from `features/trace`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["trace"] = "pytest_gpuperf.features.trace.command"
