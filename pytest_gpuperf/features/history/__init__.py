"""The times of many runs, the commits at which they changed, and a page of them.

Commands: `gpuperf history add` and `gpuperf history show`.
`store` keeps lines (`history_line`); `change_points` searches a `series`; `dashboard` writes the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["history"] = "pytest_gpuperf.features.history.command"
