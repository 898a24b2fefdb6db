"""Groups of metrics that are looked at together, by the name that `--preset` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.counters.catalogue import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping

PRESETS: Mapping[str, tuple[str, ...]] = {
    "sol": (
        "duration_us",
        "sm_throughput",
        "memory_throughput",
        "dram_throughput",
        "l2_throughput",
        "l1_throughput",
        "tensor_active",
        "issue_active",
    ),
    "occupancy": (
        "achieved_occupancy",
        "theoretical_occupancy",
        "occupancy_limiter",
        *(name for name in METRICS if name.startswith("occupancy_limit.")),
        "registers_per_thread",
        "shared_memory_per_block",
        "block_size",
        "waves",
    ),
    "stalls": ("warp_cycles_per_instruction", *(name for name in METRICS if name.startswith("stall."))),
    "memory": (
        "memory_throughput",
        "dram_throughput",
        "l2_throughput",
        "l1_throughput",
        "l1_hit_rate",
        "l2_hit_rate",
        "dram_bytes",
        "local_spill_instructions",
    ),
    "launch": (
        "duration_us",
        "grid_size",
        "block_size",
        "registers_per_thread",
        "shared_memory_per_block",
        "waves",
        "instructions",
    ),
}
"""Short names, in the order in which they are shown."""
