"""Settlement of a suspect: how a time outside the screen of its baseline was judged."""

from __future__ import annotations

from typing import Literal

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.quantities import Clock, Seconds, Time
from pytest_gpuperf.records.timing import AgainstTiming


class Settlement(Record, frozen=True, kw_only=True):
    """How a suspect was settled: old and new code in turn, or fresh processes."""

    how: Literal["in turn", "fresh", "impossible"]
    against: AgainstTiming | None = None
    """Ratios of the restarts, if it was settled in turn."""
    fresh_us: tuple[Time, ...] = ()
    """Times of fresh processes of the new code at the clock of the baseline, in microseconds a call."""
    fresh_mhz: tuple[Clock, ...] = ()
    """Mean SM clock of each of them, in MHz."""
    reason: str = ""
    """Why old and new code could not be measured in turn; empty if they were."""
    sessions: tuple[str, ...] = ()
    """Run ids of the sessions that the baseline had."""
    seconds: Seconds = 0.0
    """Wall time that it took."""
