"""Reports and text of Nsight Compute: the launches of a file, their metrics and ncu's own rules.

Command: `gpuperf ncu`, for one file or two of them next to each other.
The files are read in `measure/ncu`, which the profiling pass uses too.
Public to other features: `launches` and `report`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["ncu"] = "pytest_gpuperf.features.ncu.command"
