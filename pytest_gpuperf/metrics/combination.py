"""Several launches as one row: counts add, shares are weighted, maxima are kept.

A metric that one of the launches lacks is left out of the row, so that no value speaks for a part only. The
row of a metric says how it combines; a raw ncu name tells it by its suffix.

A mean is weighted by the quantity that its values are shares of: `100 * a / b` of two launches becomes
`100 * (a1 + a2) / (b1 + b2)`, which is their mean weighted by `b`. A metric made of several raw names has `b`
in its row (`Metric.weight`); the name of a raw metric tells it. `sm__….pct_of_peak_sustained_active` is a
share of the active cycles of the SMs, `lts__t_sector_hit_rate.pct` of the sectors of L2. The plugin reads `b`
together with the metric; if a report or a chip has no `b`, the duration takes its place.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.metrics import METRICS, Combining

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_gpuperf.records import KernelProfile, MetricValue

_BY_RAW_NAME = {metric.ncu: metric.combining for metric in METRICS.values() if metric.ncu} | {
    "launch__thread_count": Combining.SUM
}
_BY_SUFFIX = {"sum": Combining.SUM, "avg": Combining.SUM, "max": Combining.MAX, "min": Combining.MIN}
_FOLDS: Mapping[Combining, Callable[[Sequence[float]], float]] = {
    Combining.SUM: math.fsum,
    Combining.MAX: max,
    Combining.MIN: min,
}


def combine(kernels: Sequence[KernelProfile]) -> dict[str, MetricValue]:
    """Combine all launches into one row.

    Args:
        kernels: Launches with their metrics, by short or raw ncu name.

    Returns:
        The combined metrics and `kernels`, the number of launches; empty if there are none.
    """
    if not kernels:
        return {}
    rows = [kernel.metrics for kernel in kernels]
    combined: dict[str, MetricValue] = {"kernels": float(len(rows))}
    weighable = [{**kernel.weights, **kernel.metrics} for kernel in kernels]
    for name in rows[0]:
        if all(name in row for row in rows):
            value, _ = combined_value(name, weighable)
            if value is not None:
                combined[name] = value
    return combined


def combining_of(name: str) -> Combining:
    """Return how a metric combines, by short or raw ncu name.

    Raw names: `.sum` adds, and so does `.avg`, the mean over the instances of a unit; `.max` and `.min` are
    kept; rates, ratios and percentages are means; a launch fact (`launch__*`) is the largest; any other value
    must be the same in all launches.
    """
    metric = METRICS.get(name)
    if metric is not None:
        return metric.combining
    if name in _BY_RAW_NAME:
        return _BY_RAW_NAME[name]
    if suffix := name.partition(".")[2]:
        return _BY_SUFFIX.get(suffix, Combining.MEAN)
    return Combining.MAX if name.startswith("launch__") else Combining.SAME


def weight_names(metrics: Iterable[str]) -> tuple[str, ...]:
    """List all metrics that can weight these, by short or raw name.

    Args:
        metrics: Short and raw names.
    """
    return _parts(weight for name in metrics for weight in _weights_of(name))


def weights_to_ask_for(metrics: Iterable[str]) -> tuple[str, ...]:
    """List the most exact weight of each metric, and the duration, which is always there.

    The weights come in the passes that the metrics need: no preset needs more passes for them.

    Args:
        metrics: Short and raw names.

    Returns:
        Short and raw names.
    """
    weights = map(_weights_of, metrics)
    return _parts(weight for found in weights for weight in (*found[:1], *found[-1:]))


def combined_value(name: str, rows: Sequence[Mapping[str, MetricValue]]) -> tuple[MetricValue | None, str]:
    """Combine one metric, and name its weight; empty if it is not a mean."""
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
    if combining is not Combining.MEAN:
        return None, ""
    for weight in _weights_of(name):
        weights = [found for row in rows if (found := weight.weigh(row)) is not None]
        if len(weights) == len(rows) and any(weights):
            return _mean(numbers, weights), weight.name
    return None, ""


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    total = math.fsum(weights)
    mean = math.fsum(value * weight for value, weight in zip(values, weights, strict=True)) / total
    # Rounding may carry a mean of nearly equal values past them.
    return min(max(mean, min(values)), max(values))


@dataclass(frozen=True)
class _Weight:
    """One way to weight a launch."""

    name: str
    """How a table names it."""
    metrics: tuple[str, ...]
    """Short or raw names of its factors; a launch that lacks one cannot be weighted by it."""
    of: Callable[[Sequence[float]], float] = math.prod

    def weigh(self, row: Mapping[str, MetricValue]) -> float | None:
        """Return the weight of one launch, None if it has none."""
        values = [_number(row, name) for name in self.metrics]
        numbers = [value for value in values if value is not None]
        return self.of(numbers) if len(numbers) == len(values) else None


def _number(row: Mapping[str, MetricValue], name: str) -> float | None:
    """Find the value of a metric, also if the launch has only the raw names of a short one."""
    value = row.get(name)
    if value is None and name in METRICS:
        numbers = {raw: number for raw, number in row.items() if not isinstance(number, str)}
        value = METRICS[name].read(numbers)
    return None if isinstance(value, str) else value


_BY_TIME = _Weight("duration", ("duration_us",))
# Instructions issued are more exact than those executed: a ratio per instruction is per issue, and a replay
# issues again. A scheduler issues at most one instruction per cycle, so its cycles that issued are as good.
_INSTRUCTIONS = (
    ("smsp__inst_issued.sum",),
    ("smsp__issue_active.avg.per_cycle_active", "smsp__cycles_active.sum"),
    ("instructions",),
)
_PATHS_THROUGH_L1 = (
    *(f"pipe_lsu_mem_global_op_{op}" for op in ("ld", "st", "atom", "red")),
    *(f"pipe_lsu_mem_local_op_{op}" for op in ("ld", "st")),
    *(f"pipe_tex_mem_surface_op_{op}" for op in ("ld", "st", "atom", "red")),
    "pipe_tex_mem_texture",
)
_L1_SECTORS = _Weight(
    "sectors", tuple(f"l1tex__t_sectors_{path}.sum" for path in _PATHS_THROUGH_L1), math.fsum
)

# All launches on one GPU have the same instances of a unit, so a mean or a total over them does as well.
_CYCLES = re.compile(r"(?P<unit>[a-z0-9]+)__.*\.(pct_of_peak_sustained|per_cycle)_(?P<state>active|elapsed)")
_HIT_RATE = re.compile(r"(?P<unit>l1tex|lts)__t_sector(?P<kind>\w*)_hit_rate\.pct")
_PER_REQUEST = re.compile(r"l1tex__average_t_sectors_per_request(?P<kind>\w*)\.ratio")
_PER_ISSUE = re.compile(r"smsp__.*_per_(issue_active|inst_issued)\.ratio")
_PER_EXECUTED = re.compile(r"smsp__.*_per_inst_executed\.ratio")


def _weights_of(name: str) -> tuple[_Weight, ...]:
    """List the ways to weight a metric, the most exact first; none if it is not a mean."""
    metric = METRICS.get(name)
    if metric is None:
        return *_weights_of_raw(name), _BY_TIME
    if metric.combining is not Combining.MEAN:
        return ()
    return *(_product(metric.weight) if metric.weight else _weights_of_raw(metric.ncu)), _BY_TIME


def _product(names: Sequence[str]) -> Iterable[_Weight]:
    """Multiply metrics; `instructions` are taken as exactly as a launch has them."""
    factors = [_INSTRUCTIONS if name == "instructions" else ((name,),) for name in names]
    for ways in itertools.product(*factors):
        yield _Weight(" * ".join(names), tuple(itertools.chain.from_iterable(ways)))


def _weights_of_raw(name: str) -> Iterable[_Weight]:
    if match := _CYCLES.fullmatch(name):
        cycles = f"{match['unit']}__cycles_{match['state']}"
        return (_Weight("cycles", (f"{cycles}.{of}",)) for of in ("sum", "avg"))
    if match := _HIT_RATE.fullmatch(name):
        sectors = _Weight("sectors", (f"{match['unit']}__t_sectors{match['kind']}.sum",))
        return (sectors, _L1_SECTORS) if name == "l1tex__t_sector_hit_rate.pct" else (sectors,)
    if match := _PER_REQUEST.fullmatch(name):
        return (_Weight("requests", (f"l1tex__t_requests{match['kind']}.sum",)),)
    if _PER_ISSUE.fullmatch(name):
        return _product(["instructions"])
    return (_Weight("instructions", ("instructions",)),) if _PER_EXECUTED.fullmatch(name) else ()


def _parts(weights: Iterable[_Weight]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part for weight in weights for part in weight.metrics))
