"""Two lists of launches side by side: which belongs to which, and what moved."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.metrics import get
from pytest_gpuperf.records.change import Change

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pytest_gpuperf.measure.ncu.report_file import ReportKernel
    from pytest_gpuperf.metrics.metric import Better
    from pytest_gpuperf.records import MetricValue

ROUNDING_PCT = 0.5
"""ncu's long CSV has two decimals, 1024 bytes as 1.02 Kbyte: 1.005 is 1.00 or 1.01, half a per cent off."""


@dataclass(frozen=True)
class Pairing:
    """Which launch of the one file belongs to which of the other."""

    pairs: tuple[tuple[ReportKernel, ReportKernel], ...]
    """Old and new, in the order of the new ones."""
    only_old: tuple[ReportKernel, ...]
    only_new: tuple[ReportKernel, ...]


def pair_up(old: Sequence[ReportKernel], new: Sequence[ReportKernel]) -> Pairing:
    """Pair launches of the same kernel in their order.

    The first launch of a kernel belongs to the first of the same name, the second to the second. Names with
    the same template arguments go first, so that instances of one template do not change places; what is
    left goes by the function's name, for a change may be one of the arguments.
    """
    keys: tuple[Callable[[ReportKernel], str], ...] = (
        lambda kernel: kernel.demangled or kernel.name,
        lambda kernel: kernel.name,
    )
    partner: dict[int, ReportKernel] = {}
    left = list(old)
    for key in keys:
        waiting: dict[str, list[ReportKernel]] = defaultdict(list)
        for kernel in left:
            waiting[key(kernel)].append(kernel)
        for kernel in new:
            if kernel.launch not in partner and waiting[key(kernel)]:
                partner[kernel.launch] = waiting[key(kernel)].pop(0)
        left = [kernel for kernels in waiting.values() for kernel in kernels]
    return Pairing(
        pairs=tuple((partner[kernel.launch], kernel) for kernel in new if kernel.launch in partner),
        only_old=tuple(sorted(left, key=lambda kernel: kernel.launch)),
        only_new=tuple(kernel for kernel in new if kernel.launch not in partner),
    )


def changes(
    old: Mapping[str, MetricValue], new: Mapping[str, MetricValue], names: Collection[str]
) -> list[Change]:
    """Each of the metrics that both have, the largest mover first.

    Percentages are ordered by the points that they moved, other numbers by their relative change; what
    began at 0, and words that differ, come before all of these.
    """
    found = [change_of(name, old[name], new[name]) for name in names if name in old and name in new]
    return sorted(found, key=_movement, reverse=True)


def change_of(name: str, old: MetricValue, new: MetricValue, better: Better | None = None) -> Change:
    """One value beside another.

    Args:
        name: Short or raw name.
        old: The value that is compared with.
        new: The value at hand.
        better: Which direction is an improvement; None for what the catalogue says.
    """
    if isinstance(old, str) or isinstance(new, str):
        return Change(metric=name, baseline=old, actual=new, change_pct=None, worse=None)
    metric = get(name)
    if better is None:
        better = metric.better if metric else ""
    worse = None
    if better and old != new:
        worse = (new > old) is (better == "lower")
    change_pct = 100 * (new - old) / abs(old) if old else 0.0 if new == old else None
    return Change(metric=name, baseline=old, actual=new, change_pct=change_pct, worse=worse)


def visibly_worse(change: Change) -> bool | None:
    """Whether a change is for the worse; None where that is open, or ncu's rounding may be it all.

    Percentages have to move by what rounds to 0.1 points, other numbers by more than `ROUNDING_PCT`.
    """
    old, new = change.baseline, change.actual
    if isinstance(old, str) or isinstance(new, str):
        return None
    metric = get(change.metric)
    if metric is not None and metric.unit == "%":
        rounding = not round(new - old, 1)
    else:
        rounding = change.change_pct is not None and abs(change.change_pct) <= ROUNDING_PCT
    return None if rounding else change.worse


def _movement(change: Change) -> float:
    old, new = change.baseline, change.actual
    if isinstance(old, str) or isinstance(new, str):
        return 0.0 if old == new else math.inf
    metric = get(change.metric)
    if metric is not None and metric.unit == "%":
        return abs(new - old)
    return math.inf if change.change_pct is None else abs(change.change_pct)
