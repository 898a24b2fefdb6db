"""What the core asks for: the pass before the tests, and the way to run as its child."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.features.sanitizer.child import SanitizingRunner
from pytest_gpuperf.features.sanitizer.sanitizing_pass import SanitizingPass
from pytest_gpuperf.features.sanitizer.tool import find_sanitizer

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.settings.settings import Settings


def make_pass(folder: Path, tool: str) -> SanitizingPass:
    """Return the pass with a tool.

    Args:
        folder: Folder for the logs.
        tool: `memcheck`, `racecheck`, `initcheck` or `synccheck`.

    Raises:
        GpuperfError: No compute-sanitizer was found, or it does not answer.
    """
    return SanitizingPass(folder, find_sanitizer(), tool)


def child_runner(settings: Settings, folder: Path) -> SanitizingRunner:
    """Return the way to run in the child pytest, whose plan is in the folder."""
    return SanitizingRunner(settings, folder)
