"""Warps available to hide latency, the limits on their number, and facts of the launch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.metric import Combining, Metric, Preset, Source, Tier, one

if TYPE_CHECKING:
    from collections.abc import Sequence

_OCCUPANCY = "Occupancy"
_SHARED = {"static": "code declares", "dynamic": "launch asks for", "driver": "driver takes"}
"""Origin of each part of the shared memory."""

_LIMITERS = ("warps", "blocks", "registers", "shared_mem", "barriers")
"""In the order for a tie: the limits that the hardware fixes come first, since code cannot change them."""


def _limit(limiter: str) -> str:
    return f"launch__occupancy_limit_{limiter}"


def _least(values: Sequence[float]) -> str:
    return min(zip(_LIMITERS, values, strict=False), key=lambda limit: limit[1])[0]


# ncu makes these facts from the launch and the limits of the chip: they need no pass, and every chip has
# them.
_WITH_EVERY_LAUNCH: tuple[Preset, ...] = ("default", "sol", "occupancy", "launch", "one-pass")
_fact = partial(
    Metric, section="LaunchStats", tier=Tier.EXACT, combining=Combining.MAX, presets=_WITH_EVERY_LAUNCH
)
# The least of several launches, not a mean: with a weight that varies, an exact fact would vary too.
_fits = partial(_fact, section=_OCCUPANCY, better="higher", combining=Combining.MIN)
_warps = partial(Metric, section="SchedulerStats", better="higher", presets=("occupancy",))


OCCUPANCY = (
    _warps(
        "achieved_occupancy",
        "%",
        "warps resident, of the most that an SM can hold",
        one("sm__warps_active.avg.pct_of_peak_sustained_active"),
        section=_OCCUPANCY,
        presets=("default", "occupancy", "one-pass"),
    ),
    _fits(
        "theoretical_occupancy",
        "%",
        "warps that fit, of the most that an SM can hold",
        one("sm__maximum_warps_per_active_cycle_pct"),
    ),
    _fact(
        "occupancy_limiter",
        "",
        f"limit that allows the fewest blocks on an SM: {', '.join(_LIMITERS)}",
        # Older versions of ncu do not report barriers.
        tuple(Source(tuple(map(_limit, _LIMITERS[:count])), _least) for count in (5, 4)),
        section=_OCCUPANCY,
        combining=Combining.SAME,
    ),
    *(
        _fits(
            f"occupancy_limit.{limiter}",
            "block",
            f"blocks that fit on an SM by {limiter}",
            one(_limit(limiter)),
        )
        for limiter in _LIMITERS
    ),
    _warps(
        "warps_per_scheduler",
        "warp",
        "warps resident on a scheduler",
        one("smsp__warps_active.avg.per_cycle_active"),
    ),
    _warps(
        "eligible_warps",
        "warp",
        "warps of a scheduler that could issue in a cycle",
        one("smsp__warps_eligible.avg.per_cycle_active"),
    ),
    _fact(
        "registers_per_thread",
        "register",
        "registers of a thread",
        one("launch__registers_per_thread"),
        better="lower",
    ),
    _fact(
        "shared_memory_per_block",
        "byte",
        "shared memory of a block: static, dynamic and of the driver",
        one("launch__shared_mem_per_block"),
        better="lower",
    ),
    *(
        _fact(
            f"shared_memory.{part}",
            "byte",
            f"shared memory of a block that the {origin}",
            one(f"launch__shared_mem_per_block_{part}"),
            better="lower",
            presets=("launch",),
        )
        for part, origin in _SHARED.items()
    ),
    _fact("grid_size", "block", "blocks launched", one("launch__grid_size"), combining=Combining.SUM),
    _fact("block_size", "thread", "threads of a block", one("launch__block_size")),
    _fact(
        "cluster_size",
        "block",
        "blocks of a cluster, 0 without",
        one("launch__cluster_size"),
        presets=("launch",),
    ),
    _fact(
        "waves",
        "",
        "grid size over the blocks that the GPU holds at once",
        one("launch__waves_per_multiprocessor"),
    ),
    _fact(
        "sm_count",
        "SM",
        "multiprocessors that the launch may use",
        one("launch__sm_count"),
        presets=("occupancy", "launch"),
    ),
)
