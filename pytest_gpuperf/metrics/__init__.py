"""The metrics that tests, limits and baselines can name, by theme, and how raw ncu values fill them."""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.compiler_metrics import COMPILED
from pytest_gpuperf.metrics.memory_traffic import MEMORY
from pytest_gpuperf.metrics.metric import Combining, Metric, Source, Tier
from pytest_gpuperf.metrics.ncu_units import to_base
from pytest_gpuperf.metrics.occupancy_metrics import OCCUPANCY
from pytest_gpuperf.metrics.operations import ARITHMETIC
from pytest_gpuperf.metrics.roofline import CEILINGS
from pytest_gpuperf.metrics.speed_of_light import SPEED
from pytest_gpuperf.metrics.stalls import STALLS
from pytest_gpuperf.records.number_ranges import MAX_BLOCK
from pytest_gpuperf.records.run import WORDS, is_raw_name

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
]

_KERNELS = Metric(
    "kernels", "", "launches in the combined row", better="lower", tier=Tier.EXACT, combining=Combining.SUM
)

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (_KERNELS, *SPEED, *MEMORY, *OCCUPANCY, *STALLS, *ARITHMETIC, *CEILINGS, *COMPILED)
}
"""All short metrics by name. `kernels` is in combined rows only."""
COMPILED_ONLY = frozenset(metric.name for metric in COMPILED)
"""Metrics that a compiler knows and ncu does not report."""
_MOST = (
    (r"registers_per_thread|block_size", MAX_BLOCK),
    (r"(pipe|stall)\..*|.*_(throughput|active|hit_rate|occupancy|pct)", 1000),
)
"""Largest value of metrics by name, the first that matches; ncu reads parts of a % in different passes."""


def get(name: str) -> Metric | None:
    """Find the metric of a short name, None if there is none."""
    return METRICS.get(name)


def nearest(name: str, extra: Iterable[str] = ()) -> list[str]:
    """Find up to three known names that look like a misspelled one, the most alike first.

    Args:
        name: The name that the user wrote.
        extra: More names to compare with, such as all raw ones of a report.
    """
    return difflib.get_close_matches(name, dict.fromkeys([*METRICS, *extra]))


def ncu_metric_names(names: Iterable[str], chip: str = "") -> tuple[str, ...]:
    """List the raw names to ask ncu for to fill short metrics.

    Args:
        names: The short names.
        chip: Name of the chip, which may spell some in its own way and lack others; empty for the spellings
            of all chips.
    """
    return tuple(dict.fromkeys(raw for name in names for raw in METRICS[name].requests(chip)))


def source_names() -> tuple[str, ...]:
    """List all raw names that short metrics can be read from, including those never asked of ncu."""
    sources = [source for metric in METRICS.values() for source in metric.sources]
    return tuple(dict.fromkeys(name for source in sources for name in source.names))


def short_metrics(raw: Mapping[str, MetricValue], units: Mapping[str, str]) -> dict[str, MetricValue]:
    """Compute the short metrics that raw values can fill; the others and impossible ones are left out.

    Args:
        raw: Values by raw ncu name.
        units: ncu's unit of each value; a missing one stands for ncu's base unit (`ns`, `byte`).
    """
    numbers = {
        name: to_base(value, units.get(name, ""))[0]
        for name, value in raw.items()
        if not isinstance(value, str)
    }
    values = {name: metric.read(numbers) for name, metric in METRICS.items()}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, str) or (value is not None and 0 <= value <= _most(name))
    }


@lru_cache(maxsize=4096)
def _most(name: str) -> float:
    return next((most for names, most in _MOST if re.fullmatch(names, name)), 1e21)
