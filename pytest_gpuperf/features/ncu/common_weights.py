"""Two sides whose combined means are weighted alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.combination import combine, combined_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.records import KernelProfile, MetricValue


def combine_both(
    old: Sequence[KernelProfile], new: Sequence[KernelProfile]
) -> tuple[dict[str, MetricValue], dict[str, MetricValue]]:
    """Combine each of two sides into one row, for a comparison.

    Args:
        old: Launches of one side.
        new: Launches of the other.

    Returns:
        Both rows as `combine` makes them, without means that the two sides weight by different quantities:
        the same launches would differ.
    """
    rows = combine(old), combine(new)
    by_old, by_new = (weights_used(kernels, row) for kernels, row in zip((old, new), rows, strict=True))
    unlike = {name for name in by_old.keys() & by_new.keys() if by_old[name] != by_new[name]}
    before, after = ({name: row[name] for name in row if name not in unlike} for row in rows)
    return before, after


def weights_used(kernels: Sequence[KernelProfile], names: Iterable[str]) -> dict[str, str]:
    """Find the weight of each mean of the combined row.

    Args:
        kernels: The launches.
        names: Metrics of the combined row.

    Returns:
        Weights (`cycles`, `sectors`, `duration` …) by metric, without metrics that are not a mean or that are
        the same in all launches.
    """
    rows = [{**kernel.weights, **kernel.metrics} for kernel in kernels]
    known = [name for name in names if rows and all(name in row for row in rows)]
    return {name: weight for name in known if (weight := combined_value(name, rows)[1])}
