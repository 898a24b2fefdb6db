"""Several launches as one row: counts add, shares are weighted, maxima are kept.

A metric that one of the launches lacks is left out of the row, so that no value speaks for a part only.
How each metric combines is said in the catalogue; a raw ncu name tells it by its suffix. A mean is weighted
by what its values are shares of, see `weights`: stalls by warp cycles, percentages of a peak by the cycles
of their unit, hit rates by sectors, and by duration what has no such weight in the report.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.ncu.weights import weights_of
from pytest_gpuperf.metrics import METRICS, Combining, get

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_gpuperf.records import KernelProfile, MetricValue

# A raw stall ratio counts per instruction and is no share, so it goes by its suffix.
_BY_RAW_NAME = {
    metric.ncu: metric.combining
    for metric in METRICS.values()
    if metric.ncu and metric.combining is not Combining.WARP_CYCLES
} | {"launch__thread_count": Combining.SUM}
_FOLDS: Mapping[Combining, Callable[[Sequence[float]], float]] = {
    Combining.SUM: math.fsum,
    Combining.MAX: max,
    Combining.MIN: min,
}


def combine(kernels: Sequence[KernelProfile]) -> dict[str, MetricValue]:
    """All launches as one row.

    Args:
        kernels: Launches with their metrics, by short or raw ncu name.

    Returns:
        The combined metrics and `kernels`, how many launches they are of; empty for no launches.
    """
    if not kernels:
        return {}
    rows = [kernel.metrics for kernel in kernels]
    combined: dict[str, MetricValue] = {"kernels": float(len(rows))}
    weighable = [{**kernel.weights, **kernel.metrics} for kernel in kernels]
    for name in rows[0]:
        if all(name in row for row in rows):
            value, _ = _combine(name, weighable)
            if value is not None:
                combined[name] = value
    return combined


def combine_both(
    old: Sequence[KernelProfile], new: Sequence[KernelProfile]
) -> tuple[dict[str, MetricValue], dict[str, MetricValue]]:
    """Two sides as one row each, to be compared.

    Args:
        old: Launches of one side.
        new: Those of the other.

    Returns:
        Both as `combine` has them, but for means that only one side can weigh by what they are shares of:
        weighed in two ways, the same launches would differ.
    """
    rows = combine(old), combine(new)
    by_old, by_new = (
        {name: weight for weight, names in weights_used(kernels, row).items() for name in names}
        for kernels, row in zip((old, new), rows, strict=True)
    )
    unlike = {name for name in by_old.keys() & by_new.keys() if by_old[name] != by_new[name]}
    before, after = ({name: row[name] for name in row if name not in unlike} for row in rows)
    return before, after


def weights_used(kernels: Sequence[KernelProfile], names: Iterable[str]) -> dict[str, list[str]]:
    """What each mean of the combined row was weighted by.

    Args:
        kernels: The launches.
        names: Metrics of the combined row.

    Returns:
        Metrics by the weight (`cycles`, `sectors`, `duration` …); those that are no mean, or the same in
        all launches, are left out.
    """
    rows = [{**kernel.weights, **kernel.metrics} for kernel in kernels]
    used: dict[str, list[str]] = {}
    for name in names:
        weight = _combine(name, rows)[1] if rows and all(name in row for row in rows) else ""
        if weight:
            used.setdefault(weight, []).append(name)
    return used


def combining_of(name: str) -> Combining:
    """How a metric combines, by short or raw ncu name.

    Raw names: `.sum` adds, and so does `.avg`, the mean over the instances of a unit; `.max` and `.min` are
    kept; rates, ratios and percentages are means; a launch fact (`launch__*`) is the largest; anything
    else must be the same in all launches.
    """
    metric = get(name)
    if metric is not None:
        return metric.combining
    if name in _BY_RAW_NAME:
        return _BY_RAW_NAME[name]
    suffix = name.partition(".")[2]
    if suffix in ("sum", "max", "min"):
        return Combining(suffix)
    if suffix == "avg":
        return Combining.SUM
    if suffix:
        return Combining.DURATION
    return Combining.MAX if name.startswith("launch__") else Combining.SAME


def _combine(name: str, rows: Sequence[Mapping[str, MetricValue]]) -> tuple[MetricValue | None, str]:
    """The value, and what it was weighted by; empty where it is no mean."""
    values = [row[name] for row in rows]
    same = all(value == values[0] for value in values)
    numbers = [value for value in values if not isinstance(value, str)]
    if len(numbers) < len(values):
        return values[0] if same else "mixed", ""
    combining = combining_of(name)
    if combining in _FOLDS:
        return _FOLDS[combining](numbers), ""
    if same:
        return values[0], ""
    for weight in weights_of(name, combining):
        weights = [found for row in rows if (found := weight.weigh(row)) is not None]
        if len(weights) == len(rows) and any(weights):
            return _mean(numbers, weights), weight.name
    return None, ""


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    total = math.fsum(weights)
    mean = math.fsum(value * weight for value, weight in zip(values, weights, strict=True)) / total
    # Rounding may carry a mean of nearly equal values past them.
    return min(max(mean, min(values)), max(values))
