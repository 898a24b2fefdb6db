"""The first files of a project: a suite, a workflow, and instructions for coding agents.

Command: `gpuperf init`, which writes only files that are missing; their texts are in `files/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["init"] = "pytest_gpuperf.features.starter.command"
