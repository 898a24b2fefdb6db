"""Warps available to hide latency, the limits on their number, and facts of the launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.metric import (
    Better,
    Combining,
    Metric,
    Preset,
    Source,
    Tier,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_OCCUPANCY, _LAUNCH, _SCHEDULER = "Occupancy", "LaunchStats", "SchedulerStats"

_LIMITERS = ("warps", "blocks", "registers", "shared_mem", "barriers")
"""In the order for a tie: the limits that the hardware fixes come first, since code cannot change them."""


def _limit(limiter: str) -> str:
    return f"launch__occupancy_limit_{limiter}"


def _least(values: Sequence[float]) -> str:
    return min(zip(_LIMITERS, values, strict=False), key=lambda limit: limit[1])[0]


# ncu makes these facts from the launch and the limits of the chip: they need no pass, and every chip has
# them.
_WITH_EVERY_LAUNCH: tuple[Preset, ...] = ("default", "sol", "occupancy", "launch", "one-pass")


def _fact(
    name: str,
    unit: str,
    better: Better,
    combining: Combining,
    section: str,
    raw: str,
    explanation: str,
    *,
    presets: tuple[Preset, ...] = _WITH_EVERY_LAUNCH,
) -> Metric:
    sources = (Source((raw,)),)
    return Metric(name, unit, better, Tier.EXACT, combining, section, explanation, sources, presets=presets)


def _warps(name: str, raw: str, explanation: str) -> Metric:
    return Metric(
        name,
        "warp",
        "higher",
        Tier.STATE,
        Combining.MEAN,
        _SCHEDULER,
        explanation,
        (Source((f"smsp__{raw}.avg.per_cycle_active",)),),
        presets=("occupancy",),
    )


_SUM, _MAX, _MIN = Combining.SUM, Combining.MAX, Combining.MIN

OCCUPANCY = (
    Metric(
        "achieved_occupancy",
        "%",
        "higher",
        Tier.STATE,
        Combining.MEAN,
        _OCCUPANCY,
        "warps resident, of the most that an SM can hold",
        (Source(("sm__warps_active.avg.pct_of_peak_sustained_active",)),),
        presets=("default", "occupancy", "one-pass"),
    ),
    # The least of several launches, not a mean: with a weight that varies, an exact fact would vary too.
    _fact(
        "theoretical_occupancy",
        "%",
        "higher",
        _MIN,
        _OCCUPANCY,
        "sm__maximum_warps_per_active_cycle_pct",
        "warps that fit, of the most that an SM can hold",
    ),
    Metric(
        "occupancy_limiter",
        "",
        "",
        Tier.EXACT,
        Combining.SAME,
        _OCCUPANCY,
        f"limit that allows the fewest blocks on an SM: {', '.join(_LIMITERS)}",
        # Older versions of ncu do not report barriers.
        tuple(Source(tuple(map(_limit, _LIMITERS[:count])), _least) for count in (5, 4)),
        presets=_WITH_EVERY_LAUNCH,
    ),
    *(
        _fact(
            f"occupancy_limit.{limiter}",
            "block",
            "higher",
            _MIN,
            _OCCUPANCY,
            _limit(limiter),
            f"blocks that fit on an SM by {limiter}",
        )
        for limiter in _LIMITERS
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
        "shared memory of a block: static, dynamic and of the driver",
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
            presets=("launch",),
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
        "cluster_size",
        "block",
        "",
        _MAX,
        _LAUNCH,
        "launch__cluster_size",
        "blocks of a cluster, 0 without",
        presets=("launch",),
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
    _fact(
        "sm_count",
        "SM",
        "",
        _MAX,
        _LAUNCH,
        "launch__sm_count",
        "multiprocessors that the launch may use",
        presets=("occupancy", "launch"),
    ),
)
