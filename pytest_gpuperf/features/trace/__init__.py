"""Kernel tables of calls, runs and traces of torch.profiler: ranks, GPUs and steps.

Command: `gpuperf trace`. Measures for `gpuperf.trace()` of the core, by `capture`.
Record part: `Measurement.trace`, whose types are in `records/trace.py`, since limits and baselines have it.
Adds the kernel table below the row of a traced call.
Public to other features: `chrome_traces`, `summary` and `time_breakdown` (the reader),
`kernel_name_patterns` and `kernel_table`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.records import Measurement
    from pytest_gpuperf.registry import Registry
    from pytest_gpuperf.report.table import Table


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["trace"] = "pytest_gpuperf.features.trace.command"
    registry.instruments["trace"] = "pytest_gpuperf.features.trace.capture"
    registry.row_tables.append(_below_row)


def _below_row(measurement: Measurement, details: bool) -> Table | None:
    if measurement.trace is None:
        return None
    from pytest_gpuperf.features.trace.kernel_table import table_below_row

    return table_below_row(measurement.trace, details=details)
