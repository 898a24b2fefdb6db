"""Runs, tests and parameters next to each other, without a GPU.

Commands: `gpuperf compare`; `gpuperf plot`, if `page` is there, which draws pictures.
Names: `pytest_gpuperf.break_even` and `BreakEven`, for two ways to launch the same work.
Public to other features: `selectors` (names in commands), `pairing`, `value_change`, `comparison`, `report`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["compare"] = "pytest_gpuperf.features.compare.command"
    if "page" in registry.features:
        registry.commands["plot"] = "pytest_gpuperf.features.compare.plot_command"
    registry.names |= dict.fromkeys(("break_even", "BreakEven"), "pytest_gpuperf.features.compare.break_even")
