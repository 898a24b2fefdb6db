"""Kernel tables of calls, runs and traces of torch.profiler: ranks, GPUs and steps.

Command: `gpuperf trace`. Measures for `gpuperf.trace()` of the core, by `capture`.
Record part: `Measurement.trace`, whose types are in `records/trace.py`, since limits and baselines have it.
Public to other features: `chrome_traces`, `summary` and `overlap` (the reader), and `kernel_names`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["trace"] = "pytest_gpuperf.features.trace.command"
    registry.instruments["trace"] = "pytest_gpuperf.features.trace.capture"
