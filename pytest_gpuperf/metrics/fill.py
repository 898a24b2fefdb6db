"""From ncu's raw values to the short metrics of one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.ncu_units import to_base

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_gpuperf.metrics.metric import Metric
    from pytest_gpuperf.records import MetricValue


def fill(
    metrics: Iterable[Metric], raw: Mapping[str, MetricValue], units: Mapping[str, str]
) -> dict[str, MetricValue]:
    """The metrics that raw values can fill; the others are left out, never 0.

    Args:
        metrics: Rows of the catalogue.
        raw: By raw ncu name.
        units: ncu's unit of each; ncu's base unit (`ns`, `byte`) is assumed where one is missing.
    """
    numbers = {
        name: to_base(value, units.get(name, ""))[0]
        for name, value in raw.items()
        if not isinstance(value, str)
    }
    values = {metric.name: _value(metric, numbers) for metric in metrics}
    return {name: value for name, value in values.items() if value is not None}


def _value(metric: Metric, numbers: Mapping[str, float]) -> MetricValue | None:
    for source in metric.sources:
        if all(name in numbers for name in source.names):
            value = source.formula([numbers[name] for name in source.names])
            if value is not None:
                return value
    return None
