"""By what a mean over several launches is weighted: the quantity that each value is a share of.

`100 * a / b` of two launches become `100 * (a1 + a2) / (b1 + b2)`, which is their mean weighted by `b`. ncu's
names say what `b` is: `sm__….pct_of_peak_sustained_active` is of the active cycles of the SMs,
`lts__t_sector_hit_rate.pct` of the sectors of L2; a share that the catalogue makes of two counts is of the
second. The plugin has `b` read beside what it asks for; where a
report of someone else's, or a chip, has no `b`, the duration stands for it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.metrics import Combining, get
from pytest_gpuperf.metrics.metric import share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_gpuperf.records import MetricValue


@dataclass(frozen=True)
class Weight:
    """One way to weigh a launch."""

    name: str
    """What it is, in a word or two."""
    metrics: tuple[str, ...]
    """Short or raw names that it is made of; a launch that lacks one cannot be weighed by it."""
    of: Callable[[Sequence[float]], float] = math.prod

    def weigh(self, row: Mapping[str, MetricValue]) -> float | None:
        """The weight of one launch, None where it has none."""
        values = [row.get(name) for name in self.metrics]
        numbers = [value for value in values if isinstance(value, (int, float))]
        return self.of(numbers) if len(numbers) == len(values) else None


DURATION = Weight("duration", ("duration_us",))
# Issued ones come first: what is counted per instruction is so per issue, and a replay issues again. A
# scheduler issues one instruction in a cycle, so its active cycles that issued tell as much.
_INSTRUCTIONS = (
    Weight("instructions", ("smsp__inst_issued.sum",)),
    Weight("instructions", ("smsp__issue_active.avg.per_cycle_active", "smsp__cycles_active.sum")),
    Weight("instructions", ("instructions",)),
)
_WARP_CYCLES = tuple(
    Weight("warp cycles", (*weight.metrics, "warp_cycles_per_instruction")) for weight in _INSTRUCTIONS
)
_PATHS_THROUGH_L1 = (
    *(f"pipe_lsu_mem_global_op_{op}" for op in ("ld", "st", "atom", "red")),
    *(f"pipe_lsu_mem_local_op_{op}" for op in ("ld", "st")),
    *(f"pipe_tex_mem_surface_op_{op}" for op in ("ld", "st", "atom", "red")),
    "pipe_tex_mem_texture",
)
_L1_SECTORS = Weight(
    "sectors", tuple(f"l1tex__t_sectors_{path}.sum" for path in _PATHS_THROUGH_L1), math.fsum
)

# Instances of a unit are the same in all launches on one GPU, so a mean or a total over them does as well.
_CYCLES = re.compile(r"(?P<unit>[a-z0-9]+)__.*\.(pct_of_peak_sustained|per_cycle)_(?P<state>active|elapsed)")
_HIT_RATE = re.compile(r"(?P<unit>l1tex|lts)__t_sector(?P<what>\w*)_hit_rate\.pct")
_PER_REQUEST = re.compile(r"l1tex__average_t_sectors_per_request(?P<what>\w*)\.ratio")
_PER_ISSUE = re.compile(r"smsp__.*_per_(issue_active|inst_issued)\.ratio")
_PER_EXECUTED = re.compile(r"smsp__.*_per_inst_executed\.ratio")


def weights_of(name: str, combining: Combining) -> tuple[Weight, ...]:
    """Ways to weigh a metric, the most exact first; none where it is no mean.

    Args:
        name: Short or raw ncu name.
        combining: How it combines.
    """
    if combining is Combining.WARP_CYCLES:
        return *_WARP_CYCLES, DURATION
    if combining is Combining.INSTRUCTIONS:
        return *_INSTRUCTIONS, DURATION
    if combining is not Combining.DURATION:
        return ()
    metric = get(name)
    if metric is not None and metric.sources[0].formula is share:
        return Weight("totals", metric.sources[0].names[1:]), DURATION
    return *_of_raw_name(metric.ncu if metric else name), DURATION


def _of_raw_name(name: str) -> tuple[Weight, ...]:
    if match := _CYCLES.fullmatch(name):
        cycles = f"{match['unit']}__cycles_{match['state']}"
        return tuple(Weight("cycles", (f"{cycles}.{of}",)) for of in ("sum", "avg"))
    if match := _HIT_RATE.fullmatch(name):
        sectors = Weight("sectors", (f"{match['unit']}__t_sectors{match['what']}.sum",))
        return (sectors, _L1_SECTORS) if name == "l1tex__t_sector_hit_rate.pct" else (sectors,)
    if match := _PER_REQUEST.fullmatch(name):
        return (Weight("requests", (f"l1tex__t_requests{match['what']}.sum",)),)
    if _PER_ISSUE.fullmatch(name):
        return _INSTRUCTIONS
    return _INSTRUCTIONS[-1:] if _PER_EXECUTED.fullmatch(name) else ()


def weight_names(metrics: Iterable[str]) -> tuple[str, ...]:
    """What can be the weight of metrics, in whichever way, by short or raw name.

    Args:
        metrics: Short and raw names.
    """
    return _parts(way for name in metrics for way in _ways(name))


def weights_to_ask_for(metrics: Iterable[str]) -> tuple[str, ...]:
    """What to have read beside metrics: the most exact weight of each, and the duration where there is none.

    It comes in the passes that the metrics take: no preset needs more of them for it.

    Args:
        metrics: Short and raw names.

    Returns:
        Short and raw names.
    """
    return _parts(way for name in metrics for way in (*_ways(name)[:1], *_ways(name)[-1:]))


def _ways(name: str) -> tuple[Weight, ...]:
    metric = get(name)
    return weights_of(name, metric.combining if metric else Combining.DURATION)


def _parts(ways: Iterable[Weight]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part for way in ways for part in way.metrics))
