"""Checks that the machine can measure: driver, counters, clocks, other processes, toolchain.

Command: `gpuperf doctor`, with one function for each check in `command`.
It measures nothing, except one counter in `counter_access` to see if CUPTI may read any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["doctor"] = "pytest_gpuperf.features.doctor.command"
