"""Orders of the controller to a worker, sent when the worker starts."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_gpuperf.session.load_balancing import spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
    worker: int = 0
    """Place of the worker among all."""
    cards: Sequence[str] = ("",)
    """UUID of each worker's GPU; empty if it is not known."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Durations of tests that are known."""
    homes: Mapping[str, str] = field(default_factory=dict)
    """UUID of the GPU with which the baseline of a test was measured."""

    def spread(self, nodeids: Sequence[str]) -> list[list[str]]:
        """Return the tests of each worker."""
        return spread(nodeids, self.seconds, self.homes, self.cards)

    @property
    def started(self) -> datetime.datetime:
        """Begin of the run."""
        return datetime.datetime.fromisoformat(self.started_at)
