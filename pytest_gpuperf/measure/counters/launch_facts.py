"""Facts of a launch that ncu reports without counting: its sizes, and the occupancy that they allow.

They come from CUPTI's record of the launch and NVIDIA's occupancy calculation, under ncu's raw names.
Barriers are not in the record, so their limit is left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device.occupancy import multiprocessor, occupancy

if TYPE_CHECKING:
    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.measure.device.occupancy import Occupancy
    from pytest_gpuperf.records import GpuInfo


def launch_facts(launch: Activity, gpu: GpuInfo) -> dict[str, float]:
    """Compute the facts of a launch by raw ncu name, in ncu's base units.

    Args:
        launch: CUPTI's record.
        gpu: The GPU; if its compute capability is unknown, the facts of occupancy are left out.
    """
    grid_size, block_size = math.prod(launch.grid), math.prod(launch.block)
    cluster_size = math.prod(launch.cluster)
    static, both = launch.static_shared_memory_bytes, launch.shared_memory_bytes
    facts: dict[str, float] = {
        "launch__grid_size": grid_size,
        "launch__block_size": block_size,
        "launch__registers_per_thread": launch.registers_per_thread,
        "launch__shared_mem_per_block_static": static,
        "launch__shared_mem_per_block_dynamic": both - static,
        # ncu writes 0 for a launch without clusters.
        "launch__cluster_size": cluster_size if cluster_size > 1 else 0,
        "launch__sm_count": gpu.multiprocessors,
    }
    major, _, minor = gpu.compute_capability.partition(".")
    try:
        capability = int(major), int(minor)
        driver = multiprocessor(capability).reserved_bytes
        fits = _occupancy(launch, capability, block_size)
    except (GpuperfError, ValueError):
        return facts
    facts["launch__shared_mem_per_block_driver"] = driver
    facts["launch__shared_mem_per_block"] = both + driver
    facts["sm__maximum_warps_per_active_cycle_pct"] = fits.theoretical_occupancy_pct
    facts["launch__waves_per_multiprocessor"] = grid_size / (fits.blocks_per_sm * gpu.multiprocessors)
    for limiter, blocks in fits.limits.items():
        if limiter != "barriers":
            facts[f"launch__occupancy_limit_{limiter}"] = blocks
    return facts


def _occupancy(launch: Activity, capability: tuple[int, int], block_size: int) -> Occupancy:
    configured = launch.shared_memory_per_sm
    sizes = [1024 * kib for kib in multiprocessor(capability).shared_memory_kib]
    return occupancy(
        capability,
        block_size=block_size,
        registers_per_thread=launch.registers_per_thread,
        shared_memory_per_block=launch.shared_memory_bytes,
        shared_memory_per_sm=configured if configured in sizes else None,
    )
