"""When two readings of a kernel are the same, and in what those of CUPTI and ncu have to be.

CUPTI repeats the whole call for each pass, so a kernel finds in L2 what a row of such calls leaves there, and
DRAM takes the lines that the call before has left to be written. ncu repeats the kernel alone and puts memory
back between. So DRAM traffic differs, the time of what waits for it, and with the time each rate over it. The
work does not: it is the rate times the cycles that it is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from pytest_gpuperf.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.counter_agreement.results import Agreement, Reading

RELATIVE, POINTS, SMALL_STALL = 0.02, 0.5, 5.0
"""The same: nearest repeats within 2 %, or, of percentages, half a point. Repeats of one tool differ by more
at times, and a stall below 5 % by half of it."""

STALLS = "stalls"
WORK = ("sm_throughput * elapsed_cycles", "l2_throughput * elapsed_cycles")
ANY_STATE = (
    "instructions",
    "tensor_active",
    "achieved_occupancy",
    "issue_active",
    "l1_throughput",
    STALLS,
    *WORK,
)
"""Does not hang on what L2 holds at first."""
ELAPSED = ("sm_throughput", "l2_throughput", "memory_throughput")
"""A share of the time of the kernel, which hangs on that where the kernel waits for DRAM."""
DRAM = ("dram_throughput", "duration_us")
COMPARED = (*ANY_STATE, *ELAPSED, *DRAM)

COMPUTE_BOUND = ("gemm_bf16", "gemm_triton", "gemm_fp32", "transpose")
"""Calls that do not wait for DRAM: the transpose asks L1 for a line with each element, and waits for that."""
STAYS_IN_L2 = ("square_small",)
"""Calls whose input lies in L2 when they are repeated, and in DRAM where memory was put back."""
OF_THE_STATE = ("l1_throughput", "achieved_occupancy", "stall.imc_miss")
"""What moves with that in a kernel of few microseconds. The last differs several times over among the
repeats of either tool."""


@dataclass(frozen=True)
class Difference:
    """Of one metric of one kernel, by what the nearest two repeats differ."""

    metric: str
    by_cupti: tuple[float, ...]
    by_ncu: tuple[float, ...]
    points: bool
    """Whether it is in per cent, so that half a point more or less is nothing."""

    @property
    def gap(self) -> float:
        """Between the nearest two, one of each; NaN, which is like nothing, where a side has no value."""
        return min(abs(one - other) for one in self.by_cupti for other in self.by_ncu)

    @property
    def relative(self) -> float:
        """The gap as a part of ncu's mean."""
        mean = sum(self.by_ncu) / len(self.by_ncu)
        return self.gap / abs(mean) if mean else float(self.gap > 0)

    @property
    def medians_agree(self) -> bool:
        """Whether the medians of the repeats are within 2 %, as strict as can be."""
        one, other = median(self.by_cupti), median(self.by_ncu)
        return not abs(one - other) > RELATIVE * abs(other)

    @property
    def same(self) -> bool:
        """Whether it is within the tolerance."""
        return self.relative <= RELATIVE or (self.points and self.gap <= POINTS)

    def __str__(self) -> str:
        one, other = (" and ".join(f"{value:.5g}" for value in side) for side in (self.by_cupti, self.by_ncu))
        return f"{self.metric}: {one} by CUPTI, {other} by ncu"


def differences(found: Agreement, metrics: Sequence[str] = COMPARED) -> Iterator[Difference]:
    """Of one call; a metric that neither has is left out."""
    for metric in metrics:
        if metric != STALLS:
            if (difference := _difference(found, metric)) is not None:
                yield difference
            continue
        for name in dict.fromkeys((*found.cupti[0].metrics, *found.ncu[0].metrics)):
            stall = _difference(found, name) if name.startswith("stall.") else None
            if stall is not None and max(_mean(stall.by_cupti), _mean(stall.by_ncu)) >= SMALL_STALL:
                yield stall


def contradictions(name: str, found: Agreement) -> list[Difference]:
    """Differences in what both have to say the same of a call."""
    expected = (*ANY_STATE, *ELAPSED, "duration_us") if name in COMPUTE_BOUND else ANY_STATE
    moves = OF_THE_STATE if name in STAYS_IN_L2 else ()
    return [each for each in differences(found, expected) if not each.same and each.metric not in moves]


def _difference(found: Agreement, metric: str) -> Difference | None:
    sides = [tuple(_value(reading, metric) for reading in side) for side in (found.cupti, found.ncu)]
    by_cupti, by_ncu = (tuple(value for value in side if value is not None) for side in sides)
    # CUPTI has no value where nothing was counted, and ncu a 0.
    if not by_cupti and not any(by_ncu):
        return None
    nan = (float("nan"),)
    points = metric in METRICS and METRICS[metric].unit == "%"
    return Difference(metric, by_cupti or nan, by_ncu or nan, points)


def _value(reading: Reading, metric: str) -> float | None:
    name, _, over = metric.partition(" * ")
    value = reading.metrics.get(name)
    if value is None:
        return None
    return float(value) * (float(reading.metrics[over]) if over else 1)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def dram_bytes(readings: Sequence[Reading]) -> tuple[float, ...]:
    """What each reading moved from and to DRAM."""
    return tuple(float(reading.metrics["dram_bytes"]) for reading in readings)
