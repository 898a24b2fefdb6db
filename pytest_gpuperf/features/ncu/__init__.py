"""Reports and text of Nsight Compute: the launches of a file, their metrics and ncu's own rules.

Command: `gpuperf ncu`, for one file or two of them next to each other.
Names: `read_report` and `ReportKernel`. Reads the reports of the core's own runs of ncu, too.
Extra: `ncu` (ncu-report).
Public to other features: `launches`, `launch_tables` and `report_file`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["ncu"] = "pytest_gpuperf.features.ncu.command"
    registry.instruments["ncu"] = "pytest_gpuperf.features.ncu.report_reader"
    home = "pytest_gpuperf.features.ncu.report_file"
    registry.names |= dict.fromkeys(("read_report", "ReportKernel"), home)
