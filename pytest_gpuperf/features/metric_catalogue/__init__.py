"""The list of all metrics, with their names in ncu and their passes on a chip.

Command: `gpuperf metrics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["metrics"] = "pytest_gpuperf.features.metric_catalogue.command"
