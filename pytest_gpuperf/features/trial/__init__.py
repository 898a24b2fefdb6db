"""Solutions of public problems (KernelBench, GPU MODE and others), checked and timed against a reference.

Command: `gpuperf try`, which runs the cases in a child pytest with `plugin`.
`problem`, `problem_forms` and `file_import` read problems; `round_timing` times both sides; `record` is
the result.
Extra: `try` (PyYAML).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.commands["try"] = "pytest_gpuperf.features.trial.command"
