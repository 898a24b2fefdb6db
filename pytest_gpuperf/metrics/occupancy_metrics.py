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
    one,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_OCCUPANCY = "Occupancy"

_LIMITERS = ("warps", "blocks", "registers", "shared_mem", "barriers")
"""In the order for a tie: the limits that the hardware fixes come first, since code cannot change them."""


def _limit(limiter: str) -> str:
    return f"launch__occupancy_limit_{limiter}"


def _least(values: Sequence[float]) -> str:
    return min(zip(_LIMITERS, values, strict=False), key=lambda limit: limit[1])[0]


# ncu makes these facts from the launch and the limits of the chip: they need no pass, and every chip has
# them.
_WITH_EVERY_LAUNCH: tuple[Preset, ...] = ("default", "sol", "occupancy", "launch", "one-pass")
_MIN, _MAX = Combining.MIN, Combining.MAX


def _fact(
    name: str,
    unit: str,
    better: Better,
    combining: Combining,
    explanation: str,
    raw: str = "",
    *,
    section: str = "LaunchStats",
    presets: tuple[Preset, ...] = _WITH_EVERY_LAUNCH,
) -> Metric:
    sources, tier = one(raw or f"launch__{name}"), Tier.EXACT
    return Metric(
        name,
        unit,
        section,
        explanation,
        sources,
        better=better,
        tier=tier,
        combining=combining,
        presets=presets,
    )


def _fits(name: str, unit: str, explanation: str, raw: str) -> Metric:
    # The least of several launches, not a mean: with a weight that varies, an exact fact would vary too.
    return _fact(name, unit, "higher", _MIN, explanation, raw, section=_OCCUPANCY)


def _warps(
    name: str, unit: str, section: str, raw: str, explanation: str, presets: tuple[Preset, ...]
) -> Metric:
    return Metric(name, unit, section, explanation, one(raw), better="higher", presets=presets)


def _on_a_scheduler(name: str, raw: str, explanation: str) -> Metric:
    raw = f"smsp__{raw}.avg.per_cycle_active"
    return _warps(name, "warp", "SchedulerStats", raw, explanation, ("occupancy",))


def _shared(part: str, origin: str) -> Metric:
    raw, explanation = f"launch__shared_mem_per_block_{part}", f"shared memory of a block {origin}"
    return _fact(f"shared_memory.{part}", "byte", "lower", _MAX, explanation, raw, presets=("launch",))


OCCUPANCY = (
    _warps(
        "achieved_occupancy",
        "%",
        _OCCUPANCY,
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "warps resident, of the most that an SM can hold",
        ("default", "occupancy", "one-pass"),
    ),
    _fits(
        "theoretical_occupancy",
        "%",
        "warps that fit, of the most that an SM can hold",
        "sm__maximum_warps_per_active_cycle_pct",
    ),
    Metric(
        "occupancy_limiter",
        "",
        _OCCUPANCY,
        f"limit that allows the fewest blocks on an SM: {', '.join(_LIMITERS)}",
        # Older versions of ncu do not report barriers.
        tuple(Source(tuple(map(_limit, _LIMITERS[:count])), _least) for count in (5, 4)),
        tier=Tier.EXACT,
        combining=Combining.SAME,
        presets=_WITH_EVERY_LAUNCH,
    ),
    *(
        _fits(f"occupancy_limit.{one}", "block", f"blocks that fit on an SM by {one}", _limit(one))
        for one in _LIMITERS
    ),
    _on_a_scheduler("warps_per_scheduler", "warps_active", "warps resident on a scheduler"),
    _on_a_scheduler("eligible_warps", "warps_eligible", "warps of a scheduler that could issue in a cycle"),
    _fact("registers_per_thread", "register", "lower", _MAX, "registers of a thread"),
    _fact(
        "shared_memory_per_block",
        "byte",
        "lower",
        _MAX,
        "shared memory of a block: static, dynamic and of the driver",
        "launch__shared_mem_per_block",
    ),
    _shared("static", "that the code declares"),
    _shared("dynamic", "that the launch asks for"),
    _shared("driver", "that the driver takes"),
    _fact("grid_size", "block", "", Combining.SUM, "blocks launched"),
    _fact("block_size", "thread", "", _MAX, "threads of a block"),
    _fact("cluster_size", "block", "", _MAX, "blocks of a cluster, 0 without", presets=("launch",)),
    _fact(
        "waves",
        "",
        "",
        _MAX,
        "grid size over the blocks that the GPU holds at once",
        "launch__waves_per_multiprocessor",
    ),
    _fact(
        "sm_count",
        "SM",
        "",
        _MAX,
        "multiprocessors that the launch may use",
        presets=("occupancy", "launch"),
    ),
)
