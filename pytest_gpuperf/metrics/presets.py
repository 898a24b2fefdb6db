"""Sets of metrics to ask ncu for at once, by what one wants to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LAUNCH = (
    "occupancy_limiter",
    *(name for name in METRICS if name.startswith("occupancy_limit.")),
    "theoretical_occupancy",
    "registers_per_thread",
    "shared_memory_per_block",
    "grid_size",
    "block_size",
    "waves",
)
"""ncu makes these itself: no pass is needed for them."""
_SOL = (
    "duration_us",
    "sm_throughput",
    "memory_throughput",
    "dram_throughput",
    "l2_throughput",
    "l1_throughput",
)
_STALLS = tuple(name for name in METRICS if name.startswith("stall."))
_HITS = ("l1_hit_rate", "l2_hit_rate")
# What the speed of light is made of comes in the same passes.
_PIPES = ("pipe.alu", "pipe.fma", "pipe.fp64", "pipe.lsu", "pipe.xu")

DEFAULT = "default"

PRESETS: dict[str, tuple[str, ...]] = {
    DEFAULT: (
        *_SOL,
        *_HITS,
        "achieved_occupancy",
        "tensor_active",
        *_PIPES,
        "issue_active",
        "dram_bytes",
        "global_load_sectors_per_request",
        "global_store_sectors_per_request",
        "shared_wavefronts",
        "bank_conflict_pct",
        "instructions",
        "local_spill_instructions",
        *_LAUNCH,
        "warp_cycles_per_instruction",
        *_STALLS,
    ),
    "sol": (*_SOL, "tensor_active", *_PIPES, "issue_active", "sm_clock_mhz", "elapsed_cycles", *_LAUNCH),
    "occupancy": (
        "duration_us",
        "achieved_occupancy",
        "warps_per_scheduler",
        "eligible_warps",
        "issue_active",
        *_LAUNCH,
        "sm_count",
    ),
    "launch": (
        "duration_us",
        *_LAUNCH,
        "shared_memory.static",
        "shared_memory.dynamic",
        "shared_memory.driver",
        "cluster_size",
        "sm_count",
    ),
    "stalls": ("duration_us", "instructions", "issue_active", "warp_cycles_per_instruction", *_STALLS),
    "memory": (
        "duration_us",
        *(name for name in _SOL if name not in ("duration_us", "sm_throughput")),
        *_HITS,
        "dram_bytes",
        "dram_read_bytes",
        "dram_write_bytes",
        "l2_bytes",
        "l2_read_sectors",
        *(name for name in METRICS if name.startswith(("global_load_", "global_store_"))),
        "shared_wavefronts",
        "shared_bank_conflicts",
        "bank_conflict_pct",
        "instructions",
        "local_spill_instructions",
        "pipe.tma",
        "tma_instructions",
    ),
    "tensor": (
        "duration_us",
        "tensor_active",
        "pipe.tensor",
        "pipe.tma",
        "tensor_pipe_instructions",
        "tma_instructions",
        *(name for name in METRICS if name.startswith("flops.tensor_")),
    ),
    "roofline": (
        "duration_us",
        "sm_clock_mhz",
        "dram_bytes",
        "l2_bytes",
        *(name for name in METRICS if name.startswith("flops.")),
    ),
    "one-pass": (
        "duration_us",
        "dram_bytes",
        "tensor_active",
        "instruction_throughput",
        "instructions",
        "achieved_occupancy",
        *_LAUNCH,
    ),
}
"""Short names by the name of their set. All hold `duration_us`, by which several kernels are weighed; stalls
come with what weighs them."""

PURPOSES: Mapping[str, str] = {
    DEFAULT: "speed of light, pipes, occupancy, stalls, hit rates, spills: what a diagnosis needs",
    "sol": "how near the kernel comes to what the GPU can do, and by which unit",
    "occupancy": "warps resident and eligible, and what keeps others out",
    "launch": "registers, shared memory, grid and limits beside the time: nothing is counted",
    "stalls": "what warps wait for",
    "memory": "bytes and hits by level, coalescing, bank conflicts, spills, TMA",
    "tensor": "tensor cores: how busy, and with operations of which type",
    "roofline": "floating-point operations by type beside the bytes of DRAM and L2",
    "one-pass": "bytes, tensor cores, instructions and occupancy, without replaying the kernel",
}
"""What each is for, in a line."""


def check_presets(names: Iterable[str], where: str) -> tuple[str, ...]:
    """The names of presets that a user gives, if there are such.

    Args:
        names: As given.
        where: Where they stand, for the message.

    Raises:
        GpuperfError: One of them is unknown, or there is none.
    """
    found = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
    unknown = [name for name in found if name not in PRESETS]
    if unknown or not found:
        raise GpuperfError(
            f"there is no preset {unknown[0]!r} {where}" if unknown else f"no preset is named {where}",
            expected=f"one or more of {', '.join(PRESETS)}",
        )
    return found


def metrics_of(names: Iterable[str]) -> tuple[str, ...]:
    """Short names of the metrics of one or more presets, each once; none of what is no preset."""
    return tuple(dict.fromkeys(metric for name in names for metric in PRESETS.get(name, ())))
