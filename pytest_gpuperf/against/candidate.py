"""A test to compare, and the state of its calls."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_gpuperf.against.series import Series

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.against.git import Commit
    from pytest_gpuperf.against.turns import Taken

WHOLE_TEST = ""
"""In place of a label: the reason why none of the test's calls can be compared."""


@dataclass
class Candidate:
    """A test to compare."""

    nodeid: str
    path: Path
    """Its file."""
    tolerance_pct: float = 0.0
    """Accepted slowdown, in percent; 0 leaves it to statistics."""
    series: defaultdict[str, Series] = field(default_factory=lambda: defaultdict(Series))
    """By label."""

    @property
    def is_settled(self) -> bool:
        """True if it needs no further restart."""
        return bool(self.series) and all(series.is_settled for series in self.series.values())

    @property
    def settled(self) -> list[str]:
        """Labels that need no further restart."""
        return [label for label, series in self.series.items() if series.is_settled]

    @property
    def recorded(self) -> dict[str, bool]:
        """By label that has blocks, True if CUPTI times it."""
        return {label: series.recorded for label, series in self.series.items() if series.log_ratios}

    def give_up(self, reason: str, *, broken: bool = False) -> None:
        """Stop comparing its calls."""
        for label in (*self.series, WHOLE_TEST):
            series = self.series[label]
            if not series.is_settled:
                series.reason, series.broken = reason, broken

    def take(self, taken: Taken, commit: Commit) -> None:
        """Add one restart."""
        if taken.misplaced:
            self.give_up(taken.misplaced, broken=True)
            return
        old, new = taken.modes["A"], taken.modes["B"]
        failure = _failure(taken, commit)
        for label in {**old, **new}:
            series = self.series[label]
            if label in taken.blocks:
                series.recorded = taken.recorded[label]
                series.add(taken.blocks[label], new[label], taken.seconds[label], new_first=taken.new_first)
            elif series.log_ratios:
                pass
            elif label in old and label in new and old[label] != new[label]:
                series.reason = f"it is timed {old[label]} on {commit} and {new[label]} here"
            elif failure:
                series.reason = failure
            elif label not in old:
                series.reason = f"not on {commit}: the test times no {label!r} there"
            elif label not in new:
                series.reason = f"only on {commit}"
        if failure:
            self.series[WHOLE_TEST].reason = failure
        elif not self.series:
            self.series[WHOLE_TEST].reason = "the test timed nothing when it was to be compared"

    def conclude(self, commit: Commit) -> None:
        """Note the reason for calls that no restart has timed on both sides."""
        for series in self.series.values():
            if not series.is_settled and not series.log_ratios:
                series.reason = f"the test makes its calls in another order on {commit}"


def _failure(taken: Taken, commit: Commit) -> str:
    if "A" in taken.failures:
        return f"on {commit} {taken.failures['A']}"
    return f"when it was to be compared, {taken.failures['B']}" if "B" in taken.failures else ""
