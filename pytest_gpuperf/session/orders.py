"""Orders of the controller to a worker, sent when the worker starts."""

from __future__ import annotations

import datetime
from dataclasses import dataclass


@dataclass(frozen=True)
class Orders:
    """The part of the run that a worker does."""

    run_id: str
    started_at: str
    """UTC, ISO 8601."""
    first_on_path: str
    isatty: bool
    """True if the controller writes to a terminal."""
    stacks: str
    """File for the stacks of a test that takes too long."""
    nodeids: list[str] | None = None
    """The tests in order, in a worker that replaces another one."""

    @property
    def started(self) -> datetime.datetime:
        """Begin of the run."""
        return datetime.datetime.fromisoformat(self.started_at)
