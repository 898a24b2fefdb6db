"""The launches of one call as one row: counts add, shares are weighted, maxima are kept.

A metric that one of the launches lacks is left out of the row, so that no value speaks for a part only.
How each metric combines is said in the catalogue; a raw ncu name tells it by its suffix.

Shares of stalls are exact up to replayed instructions: a kernel's warp cycles are the instructions that it
executed times the warp cycles of one, and both are in the catalogue. Other percentages are of cycles of
some unit, and the duration stands for these.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_gpuperf.counters.catalogue import METRICS, Combining, get

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gpuperf.records import KernelProfile, MetricValue

# A raw stall ratio counts per instruction and is no share, so it goes by its suffix.
_BY_RAW_NAME = {
    metric.ncu: metric.combining
    for metric in METRICS.values()
    if metric.ncu and metric.combining is not Combining.WARP_CYCLES
}
_FOLDS: Mapping[Combining, Callable[[Sequence[float]], float]] = {
    Combining.SUM: math.fsum,
    Combining.MAX: max,
    Combining.MIN: min,
}
_WEIGHTS: Mapping[Combining, tuple[tuple[str, ...], ...]] = {
    Combining.DURATION: (("duration_us",),),
    Combining.INSTRUCTIONS: (("instructions",), ("duration_us",)),
    Combining.WARP_CYCLES: (("instructions", "warp_cycles_per_instruction"), ("duration_us",)),
}
"""By what a mean is weighted: the product of these metrics, or of the next ones where a launch lacks one."""


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
    for name in rows[0]:
        if all(name in row for row in rows):
            value = _combine(name, rows)
            if value is not None:
                combined[name] = value
    return combined


def combining_of(name: str) -> Combining:
    """How a metric combines, by short or raw ncu name.

    Raw names: `.sum` adds, `.max` and `.min` are kept, rates, ratios, averages and percentages are weighted
    by duration; a launch fact (`launch__*`) is the largest; anything else must be the same in all launches.
    """
    metric = get(name)
    if metric is not None:
        return metric.combining
    if name in _BY_RAW_NAME:
        return _BY_RAW_NAME[name]
    suffix = name.partition(".")[2]
    if suffix in ("sum", "max", "min"):
        return Combining(suffix)
    if suffix:
        return Combining.DURATION
    return Combining.MAX if name.startswith("launch__") else Combining.SAME


def _combine(name: str, rows: Sequence[Mapping[str, MetricValue]]) -> MetricValue | None:
    values = [row[name] for row in rows]
    same = all(value == values[0] for value in values)
    numbers = [value for value in values if not isinstance(value, str)]
    if len(numbers) < len(values):
        return values[0] if same else "mixed"
    combining = combining_of(name)
    if combining in _FOLDS:
        return _FOLDS[combining](numbers)
    if same:
        return values[0]
    for names in _WEIGHTS.get(combining, ()):
        weights = [_product(row, names) for row in rows]
        if all(weight is not None for weight in weights):
            return _mean(numbers, [weight or 0.0 for weight in weights])
    return None


def _product(row: Mapping[str, MetricValue], names: Sequence[str]) -> float | None:
    factors = [row.get(name) for name in names]
    numbers = [factor for factor in factors if isinstance(factor, (int, float))]
    return math.prod(numbers) if len(numbers) == len(names) else None


def _mean(values: Sequence[float], weights: Sequence[float]) -> float | None:
    total = math.fsum(weights)
    if not total:
        return None
    mean = math.fsum(value * weight for value, weight in zip(values, weights, strict=True)) / total
    # Rounding may carry a mean of nearly equal values past them.
    return min(max(mean, min(values)), max(values))
