"""The commit that made a test regress, by `git bisect run`.

Command: `gpuperf bisect`, whose exit status says if the commit is good, bad or neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["bisect"] = "pytest_gpuperf.features.bisect.command"
