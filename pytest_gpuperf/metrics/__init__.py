"""The metrics that tests, limits and baselines speak of, by theme, and how ncu's raw names fill them."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.arithmetic import ARITHMETIC
from pytest_gpuperf.metrics.compiled import COMPILED
from pytest_gpuperf.metrics.fill import fill
from pytest_gpuperf.metrics.memory import MEMORY
from pytest_gpuperf.metrics.metric import Combining, Metric, Source, Tier
from pytest_gpuperf.metrics.occupancy import OCCUPANCY
from pytest_gpuperf.metrics.speed import SPEED
from pytest_gpuperf.metrics.stalls import STALLS
from pytest_gpuperf.records.counters import WORDS, is_raw_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_gpuperf.records import MetricValue

__all__ = [
    "COMPILED_ONLY",
    "METRICS",
    "WORDS",
    "Combining",
    "Metric",
    "Source",
    "Tier",
    "get",
    "is_raw_name",
    "ncu_metric_names",
    "nearest",
    "short_metrics",
    "source_names",
    "top_stall",
]

_KERNELS = Metric("kernels", "", "lower", Tier.EXACT, Combining.SUM, "", "launches in the combined row", ())

METRICS: Mapping[str, Metric] = {
    metric.name: metric for metric in (_KERNELS, *SPEED, *MEMORY, *OCCUPANCY, *STALLS, *ARITHMETIC, *COMPILED)
}
"""All short metrics by name. `kernels` is in combined rows only."""
COMPILED_ONLY = frozenset(metric.name for metric in COMPILED)
"""What a compiler knows and ncu does not tell."""


def get(name: str) -> Metric | None:
    """The metric of this short name, None where the catalogue has none."""
    return METRICS.get(name)


def nearest(name: str, extra: Iterable[str] = ()) -> list[str]:
    """Up to three known names that look like a misspelled one, the most alike first.

    Args:
        name: What the user wrote.
        extra: Names to look through beside the catalogue's, such as all raw ones of a report.
    """
    return difflib.get_close_matches(name, dict.fromkeys([*METRICS, *extra]))


def ncu_metric_names(names: Iterable[str], chip: str = "") -> tuple[str, ...]:
    """Raw names to ask ncu for, so that short metrics can be filled.

    Args:
        names: The short names.
        chip: Name of the chip, which may spell some in its own way, and lack some; empty where it is not
            known, for the spellings of all chips.
    """
    return tuple(dict.fromkeys(raw for name in names for raw in METRICS[name].requests(chip)))


def source_names() -> tuple[str, ...]:
    """Raw names that short metrics are read from in a report of anyone's: also what stands in for others."""
    sources = [source for metric in METRICS.values() for source in metric.sources]
    return tuple(dict.fromkeys(name for source in sources for name in source.names))


def short_metrics(raw: Mapping[str, MetricValue], units: Mapping[str, str]) -> dict[str, MetricValue]:
    """Fill the catalogue from raw values; what cannot be filled is left out, never 0.

    Args:
        raw: By raw ncu name.
        units: ncu's unit of each; ncu's base unit (`ns`, `byte`) is assumed where one is missing.
    """
    return fill(METRICS.values(), raw, units)


def top_stall(metrics: Mapping[str, MetricValue]) -> tuple[str, float] | None:
    """The largest `stall.*` of a row with its share in %, None where the row has none."""
    stalls = [
        (name, value)
        for name, value in metrics.items()
        if name.startswith("stall.") and not isinstance(value, str)
    ]
    return max(stalls, key=lambda stall: stall[1], default=None)
