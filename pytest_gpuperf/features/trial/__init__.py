"""Solutions of public problems (KernelBench, GPU MODE and others), checked and timed against a reference.

Command: `gpuperf try`, which runs the cases in a child pytest with `plugin`.
`problem`, `forms` and `modules` read problems; `in_turn` times the two sides; `record` is the result.
Extra: `try` (PyYAML).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["try"] = "pytest_gpuperf.features.trial.command"
