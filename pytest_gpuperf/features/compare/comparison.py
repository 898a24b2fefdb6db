"""Values side by side: the result of every comparison, of measurements or of launches from ncu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.records import MetricValue
    from pytest_gpuperf.records.change import Change


@dataclass(frozen=True, slots=True)
class ValueCell:
    """One value in one column."""

    value: MetricValue | None = None
    """None if the column does not have it."""
    change: Change | None = None
    """Change since the first column; None in that column and if not compared. Measurements without a change
    have none either."""
    not_compared: bool = False
    """True if it is another quantity than the value in the first column."""


@dataclass(frozen=True, slots=True)
class MetricLine:
    """One metric in all columns."""

    subject: str
    """The test, parameters or launch of the line if a comparison has several; otherwise empty."""
    metric: str
    unit: str
    cells: tuple[ValueCell, ...]


@dataclass(frozen=True)
class Comparison:
    """Several columns of values, and their changes since the first."""

    sources: tuple[str, ...]
    """Ids of the runs, or names of the files."""
    columns: tuple[str, ...]
    lines: tuple[MetricLine, ...]
    notes: tuple[str, ...]
    """Facts that a reader needs before drawing conclusions from the changes."""
