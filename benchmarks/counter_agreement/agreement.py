"""Decide if readings of a kernel by CUPTI and by ncu are the same, and which of them must be.

Both flush the caches before each pass. CUPTI repeats the whole call, and ncu the kernel alone, with memory
restored. The times of kernels that wait for DRAM may differ with that, and each rate over such a time. The
work of the SMs, rate times cycles, is the same. That of the L2 differs by up to 5 %, whatever the flush.
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
"""Readings are the same if the nearest repeats are within 2 %, or half a point for percentages. Repeats of
one tool sometimes differ by more, and a stall below 5 % by half of its value."""

STALLS = "stalls"
OF_SMS, OF_L2 = "sm_throughput * elapsed_cycles", "l2_throughput * elapsed_cycles"
ANY_STATE = (
    "instructions",
    "tensor_active",
    "achieved_occupancy",
    "issue_active",
    "l1_throughput",
    STALLS,
    OF_SMS,
)
"""Metrics that do not depend on the initial state of L2."""
ELAPSED = ("sm_throughput", "l2_throughput", "memory_throughput")
"""Shares of the kernel's time, which depends on the state of L2 if the kernel waits for DRAM."""
DRAM = ("dram_throughput", "duration_us")
COMPARED = (*ANY_STATE, OF_L2, *ELAPSED, *DRAM)

COMPUTE_BOUND = ("gemm_bf16", "gemm_triton", "gemm_fp32")
"""Calls that do not wait for DRAM."""
SHORT = ("square_small",)
"""Calls of a few microseconds. ncu empties the caches of instructions, too, which CUPTI finds filled; only in
these calls that matters."""
PLACED = ("transpose",)
"""Calls whose time differs by 5 % from process to process, at one clock."""
MAY_DIFFER = {
    **dict.fromkeys(
        SHORT,
        (
            "l1_throughput",
            "achieved_occupancy",
            "stall.imc_miss",
            "stall.no_instruction",
            "stall.long_scoreboard",
            OF_SMS,
        ),
    ),
    **dict.fromkeys(PLACED, ("issue_active", "l1_throughput")),
}
"""Metrics that change with that, by call."""


@dataclass(frozen=True)
class Difference:
    """Difference of the nearest two repeats, for one metric of one kernel."""

    metric: str
    by_cupti: tuple[float, ...]
    by_ncu: tuple[float, ...]
    points: bool
    """True for a percentage, which may differ by half a point."""

    @property
    def gap(self) -> float:
        """Return the distance of the nearest two readings, one by each tool; NaN if a side has no value."""
        return min(abs(one - other) for one in self.by_cupti for other in self.by_ncu)

    @property
    def relative(self) -> float:
        """Return the gap relative to the mean by ncu."""
        mean = sum(self.by_ncu) / len(self.by_ncu)
        return self.gap / abs(mean) if mean else float(self.gap > 0)

    @property
    def medians_agree(self) -> bool:
        """Return True if the medians of the repeats are within 2 %."""
        one, other = median(self.by_cupti), median(self.by_ncu)
        return not abs(one - other) > RELATIVE * abs(other)

    @property
    def same(self) -> bool:
        """Return True if the difference is within the tolerance."""
        return self.relative <= RELATIVE or (self.points and self.gap <= POINTS)

    def __str__(self) -> str:
        one, other = (" and ".join(f"{value:.5g}" for value in side) for side in (self.by_cupti, self.by_ncu))
        return f"{self.metric}: {one} by CUPTI, {other} by ncu"


def differences(found: Agreement, metrics: Sequence[str] = COMPARED) -> Iterator[Difference]:
    """Yield the differences of one call, for metrics that either tool has."""
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
    """Return unexpected differences of a call."""
    expected = (*ANY_STATE, *ELAPSED, "duration_us") if name in COMPUTE_BOUND else ANY_STATE
    moves = MAY_DIFFER.get(name, ())
    return [each for each in differences(found, expected) if not each.same and each.metric not in moves]


def _difference(found: Agreement, metric: str) -> Difference | None:
    sides = [tuple(_value(reading, metric) for reading in side) for side in (found.cupti, found.ncu)]
    by_cupti, by_ncu = (tuple(value for value in side if value is not None) for side in sides)
    # If nothing was counted, CUPTI has no value and ncu a 0.
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
    """Return the DRAM traffic of each reading, in bytes."""
    return tuple(float(reading.metrics["dram_bytes"]) for reading in readings)
