"""The change from one value to another: its size, its direction, and which of many is the largest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_gpuperf.metrics import get
from pytest_gpuperf.records.change import Change

if TYPE_CHECKING:
    from pytest_gpuperf.metrics.metric import Better
    from pytest_gpuperf.records import MetricValue

ROUNDING_PCT = 0.5
"""Rounding error of the long CSV from ncu: it has two decimals, and 1.005 is 1.00 or 1.01."""


def change_of(name: str, old: MetricValue, new: MetricValue, better: Better | None = None) -> Change:
    """Return the change of one metric.

    Args:
        name: Short or raw name.
        old: The value that is compared with.
        new: The other value.
        better: The direction of an improvement; None for the direction in the catalogue.
    """
    if isinstance(old, str) or isinstance(new, str):
        return Change(metric=name, baseline=old, actual=new, change_pct=None, worse=None)
    metric = get(name)
    if better is None:
        better = metric.better if metric else ""
    change_pct = 100 * (new - old) / abs(old) if old else 0.0 if new == old else None
    shown = new - old if _is_percentage(name) else change_pct
    # What is shown as 0.0 is neither better nor worse.
    moved = shown is None or round(shown, 1)
    worse = (new > old) is (better == "lower") if better and moved else None
    return Change(metric=name, baseline=old, actual=new, change_pct=change_pct, worse=worse)


def visibly_worse(change: Change) -> bool | None:
    """Return whether a change is for the worse; None if neither, or if ncu's rounding may explain it.

    Other numbers than percentages have to move by more than `ROUNDING_PCT`.
    """
    if change.change_pct is None or _is_percentage(change.metric) or abs(change.change_pct) > ROUNDING_PCT:
        return change.worse
    return None


def size_of(change: Change) -> float:
    """Return how far a value moved, to find the largest mover.

    Percentages count by the points that they moved, other numbers by their relative change; a start at 0, and
    words that differ, are larger than all of these.
    """
    old, new = change.baseline, change.actual
    if isinstance(old, str) or isinstance(new, str):
        return 0.0 if old == new else math.inf
    if _is_percentage(change.metric):
        return abs(new - old)
    return math.inf if change.change_pct is None else abs(change.change_pct)


def _is_percentage(name: str) -> bool:
    metric = get(name)
    return metric is not None and metric.unit == "%"
