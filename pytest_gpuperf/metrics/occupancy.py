"""How many warps are there to hide latency, and what keeps others out; facts of the launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.metric import (
    Better,
    Combining,
    Formula,
    Metric,
    Source,
    Tier,
    as_it_is,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_OCCUPANCY, _LAUNCH, _SCHEDULER = "Occupancy", "LaunchStats", "SchedulerStats"

LIMITERS = ("warps", "blocks", "registers", "shared_mem", "barriers")
"""In the order in which a tie is named: what the hardware fixes first, for that cannot be mended."""


def _limit(limiter: str) -> str:
    return f"launch__occupancy_limit_{limiter}"


def _least(values: Sequence[float]) -> str:
    return min(zip(LIMITERS, values, strict=False), key=lambda limit: limit[1])[0]


def _fact(
    name: str,
    unit: str,
    better: Better,
    combining: Combining,
    section: str,
    raw: str,
    explanation: str,
    formula: Formula = as_it_is,
) -> Metric:
    # Made by ncu itself, from the launch and the chip's limits: on every chip, and in no pass.
    return Metric(name, unit, better, Tier.EXACT, combining, section, explanation, (Source((raw,), formula),))


def _warps(name: str, raw: str, explanation: str) -> Metric:
    return Metric(
        name,
        "warp",
        "higher",
        Tier.STATE,
        Combining.DURATION,
        _SCHEDULER,
        explanation,
        (Source((f"smsp__{raw}.avg.per_cycle_active",)),),
    )


_SUM, _MAX, _MIN = Combining.SUM, Combining.MAX, Combining.MIN

OCCUPANCY = (
    Metric(
        "achieved_occupancy",
        "%",
        "higher",
        Tier.STATE,
        Combining.DURATION,
        _OCCUPANCY,
        "warps resident, of what an SM can hold",
        (Source(("sm__warps_active.avg.pct_of_peak_sustained_active",)),),
    ),
    # In combined rows the least and not a mean: a weight that moves would make an exact fact move.
    _fact(
        "theoretical_occupancy",
        "%",
        "higher",
        _MIN,
        _OCCUPANCY,
        "sm__maximum_warps_per_active_cycle_pct",
        "warps that fit, of what an SM can hold",
    ),
    Metric(
        "occupancy_limiter",
        "",
        "",
        Tier.EXACT,
        Combining.SAME,
        _OCCUPANCY,
        f"what allows the fewest blocks on an SM: {', '.join(LIMITERS)}",
        # Before barriers were counted there were four.
        tuple(Source(tuple(map(_limit, LIMITERS[:count])), _least) for count in (5, 4)),
    ),
    *(
        _fact(
            f"occupancy_limit.{limiter}",
            "block",
            "higher",
            _MIN,
            _OCCUPANCY,
            _limit(limiter),
            f"blocks on an SM that its {limiter} allow",
        )
        for limiter in LIMITERS
    ),
    _warps("warps_per_scheduler", "warps_active", "warps resident on a scheduler"),
    _warps("eligible_warps", "warps_eligible", "warps of a scheduler that could issue in a cycle"),
    _fact(
        "registers_per_thread",
        "register",
        "lower",
        _MAX,
        _LAUNCH,
        "launch__registers_per_thread",
        "registers of a thread",
    ),
    _fact(
        "shared_memory_per_block",
        "byte",
        "lower",
        _MAX,
        _LAUNCH,
        "launch__shared_mem_per_block",
        "static, dynamic and the driver's shared memory of a block",
    ),
    *(
        _fact(
            f"shared_memory.{part}",
            "byte",
            "lower",
            _MAX,
            _LAUNCH,
            f"launch__shared_mem_per_block_{part}",
            f"shared memory of a block {origin}",
        )
        for part, origin in {
            "static": "that the code declares",
            "dynamic": "that the launch asks for",
            "driver": "that the driver takes",
        }.items()
    ),
    _fact("grid_size", "block", "", _SUM, _LAUNCH, "launch__grid_size", "blocks launched"),
    _fact("block_size", "thread", "", _MAX, _LAUNCH, "launch__block_size", "threads of a block"),
    _fact(
        "cluster_size", "block", "", _MAX, _LAUNCH, "launch__cluster_size", "blocks of a cluster, 0 without"
    ),
    _fact(
        "waves",
        "",
        "",
        _MAX,
        _LAUNCH,
        "launch__waves_per_multiprocessor",
        "grid size over the blocks that the GPU holds at once",
    ),
    _fact("sm_count", "SM", "", _MAX, _LAUNCH, "launch__sm_count", "multiprocessors that the launch may use"),
)
