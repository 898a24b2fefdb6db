"""The metrics that tests, limits and baselines speak of: one table, and how ncu's raw names fill it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal

from pytest_gpuperf.counters.ncu_units import to_base

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_gpuperf.records import MetricValue


class Tier(Enum):
    """How much a metric moves when nothing changed."""

    EXACT = "exact"
    """A fact of the compiled kernel and its launch: the same in every run."""
    NEAR_EXACT = "near-exact"
    """A count of work done: moves by a fraction of a per cent at most."""
    STATE = "state"
    """Depends on clocks, caches and neighbours, as a time does."""


class Combining(Enum):
    """How the launches of several kernels become one row."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    DURATION = "duration"
    """Mean weighted by `duration_us`."""
    INSTRUCTIONS = "instructions"
    """Mean weighted by `instructions`, for what is counted per instruction."""
    WARP_CYCLES = "warp cycles"
    """Mean weighted by `instructions` times `warp_cycles_per_instruction`, for shares of all warp cycles."""
    SAME = "same"
    """The value that all have; else `mixed` for a word and nothing for a number."""


@dataclass(frozen=True)
class Metric:
    """One row of the catalogue."""

    name: str
    ncu: str
    """Raw ncu name that it is read from; empty where it is derived from several."""
    unit: str
    """`us`, `%`, `byte`, `block` …; empty for a pure number or a word."""
    better: Literal["higher", "lower", ""]
    """Which direction is an improvement; empty where neither is by itself."""
    tier: Tier
    combining: Combining
    explanation: str


_STALLS: Mapping[str, str] = {
    "barrier": "waiting for other warps at a block barrier",
    "branch_resolving": "waiting for a branch target",
    "dispatch_stall": "held back by the dispatcher",
    "drain": "waiting after exit for memory writes to drain",
    "gmma": "waiting for warpgroup matrix operations (GH100 only)",
    "imc_miss": "waiting for a miss of the immediate constant cache (not from Blackwell on)",
    "lg_throttle": "waiting for room in the queue of local and global memory",
    "long_scoreboard": "waiting for data from L1, L2 or DRAM",
    "math_pipe_throttle": "waiting for a busy arithmetic pipe",
    "membar": "waiting at a memory barrier",
    "mio_throttle": "waiting for room in the queue of shared memory and special functions",
    "misc": "waiting for any other reason",
    "no_instruction": "waiting for an instruction to be fetched",
    "not_selected": "ready, but another warp was issued",
    "short_scoreboard": "waiting for data from shared memory or special functions",
    "sleeping": "asleep in nanosleep",
    "tex_throttle": "waiting for room in the texture queue",
    "wait": "waiting for a fixed latency of the instruction before",
}
_NOT_ON_EVERY_CHIP = frozenset({"gmma", "imc_miss"})

_LIMITERS = ("warps", "blocks", "registers", "shared_mem", "barriers")
"""In the order in which a tie is named: what the hardware fixes first, for that cannot be mended."""

_DRAM_READ_WRITE = ("dram__bytes_read.sum", "dram__bytes_write.sum")
_LOCAL = ("smsp__sass_inst_executed_op_local_ld.sum", "smsp__sass_inst_executed_op_local_st.sum")
_WARP_LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
_ALL_WARPS = ("smsp__average_warps_active_per_issue_active.ratio", _WARP_LATENCY)
"""Warps per issued instruction over all reasons, under its two names; what the reasons are shares of."""


def _stall_ratio(reason: str) -> str:
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


def _limit(limiter: str) -> str:
    return f"launch__occupancy_limit_{limiter}"


def _rows(
    unit: str,
    better: Literal["higher", "lower", ""],
    tier: Tier,
    combining: Combining,
    names: Mapping[str, tuple[str, str]],
) -> tuple[Metric, ...]:
    return tuple(
        Metric(name, ncu, unit, better, tier, combining, explanation)
        for name, (ncu, explanation) in names.items()
    )


_ELAPSED, _ACTIVE = "avg.pct_of_peak_sustained_elapsed", "avg.pct_of_peak_sustained_active"

_PERCENTAGES = {
    "sm_throughput": (f"sm__throughput.{_ELAPSED}", "compute speed of light: busiest unit of the SM"),
    "memory_throughput": (
        f"gpu__compute_memory_throughput.{_ELAPSED}",
        "memory speed of light: busiest unit from L1 to DRAM",
    ),
    "dram_throughput": (f"gpu__dram_throughput.{_ELAPSED}", "busiest unit of DRAM, of its peak"),
    "l2_throughput": (f"lts__throughput.{_ELAPSED}", "busiest unit of L2, of its peak"),
    "l1_throughput": (f"l1tex__throughput.{_ACTIVE}", "busiest unit of L1, of its peak while active"),
    "l1_hit_rate": ("l1tex__t_sector_hit_rate.pct", "sectors found in L1"),
    "l2_hit_rate": ("lts__t_sector_hit_rate.pct", "sectors found in L2"),
    "achieved_occupancy": (f"sm__warps_active.{_ACTIVE}", "warps resident, of what an SM can hold"),
    "tensor_active": (
        f"sm__pipe_tensor_cycles_active.{_ACTIVE}",
        "cycles with the tensor pipe busy, of active cycles of the SM",
    ),
    "issue_active": (f"smsp__issue_active.{_ACTIVE}", "cycles that issued, of active cycles of a scheduler"),
}
_COUNTS = {
    "instructions": ("smsp__inst_executed.sum", "warp instructions executed"),
    "local_spill_instructions": ("", "warp instructions that load or store local memory"),
}
_SHARED_MEMORY = ("launch__shared_mem_per_block", "static, dynamic and the driver's shared memory of a block")
# In combined rows the least and not a mean: a weight that moves would make an exact fact move.
_FITS = ("sm__maximum_warps_per_active_cycle_pct", "warps that fit, of what an SM can hold")
_LIMITER = ("", f"what allows the fewest blocks on an SM: {', '.join(_LIMITERS)}")
_BLOCKS = {f"occupancy_limit.{k}": (_limit(k), f"blocks on an SM that its {k} allow") for k in _LIMITERS}
_COMPILED: Mapping[str, tuple[str, Literal["higher", "lower", ""], str]] = {
    "spills": ("byte", "lower", "stored and loaded by a thread's code because registers ran out"),
    "stack_bytes": ("byte", "lower", "local memory of a thread"),
    "shared_memory_bytes": ("byte", "lower", "static and dynamic shared memory of a block"),
    "blocks_per_sm": ("block", "higher", "blocks that fit on an SM"),
    "code_bytes": ("byte", "", "machine code of the kernel"),
    "widest_load_bits": ("bit", "higher", "widest load of one thread from global memory"),
    "tensor_instructions": ("", "", "which of mma.sync, wmma, wgmma and tcgen05 the code has, or none"),
}
_WAVES = ("launch__waves_per_multiprocessor", "grid size over the blocks that the GPU holds at once")
_LATENCY = (_WARP_LATENCY, "cycles of a warp for each instruction issued")
_SHARES = {f"stall.{k}": (_stall_ratio(k), f"share of all warp cycles spent {v}") for k, v in _STALLS.items()}

_E, _N, _S = Tier.EXACT, Tier.NEAR_EXACT, Tier.STATE
_SUM, _MAX, _MIN = Combining.SUM, Combining.MAX, Combining.MIN
_ROWS = (
    *_rows("", "lower", _E, _SUM, {"kernels": ("", "launches in the combined row")}),
    *_rows("us", "lower", _S, _SUM, {"duration_us": ("gpu__time_duration.sum", "time under the profiler")}),
    *_rows("%", "higher", _S, Combining.DURATION, _PERCENTAGES),
    *_rows("byte", "lower", _S, _SUM, {"dram_bytes": ("dram__bytes.sum", "bytes moved to and from DRAM")}),
    *_rows("inst", "lower", _N, _SUM, _COUNTS),
    *_rows("%", "higher", _E, _MIN, {"theoretical_occupancy": _FITS}),
    *_rows("", "", _E, Combining.SAME, {"occupancy_limiter": _LIMITER}),
    *_rows("block", "higher", _E, _MIN, _BLOCKS),
    *_rows(
        "register",
        "lower",
        _E,
        _MAX,
        {"registers_per_thread": ("launch__registers_per_thread", "registers of a thread")},
    ),
    *_rows("byte", "lower", _E, _MAX, {"shared_memory_per_block": _SHARED_MEMORY}),
    *_rows("block", "", _E, _SUM, {"grid_size": ("launch__grid_size", "blocks launched")}),
    *_rows("thread", "", _E, _MAX, {"block_size": ("launch__block_size", "threads of a block")}),
    *_rows("", "", _E, _MAX, {"waves": _WAVES}),
    *_rows("cycle", "lower", _S, Combining.INSTRUCTIONS, {"warp_cycles_per_instruction": _LATENCY}),
    *_rows("%", "", _S, Combining.WARP_CYCLES, _SHARES),
    *(
        Metric(name, "", unit, better, _E, Combining.SAME, f"compiled only: {explanation}")
        for name, (unit, better, explanation) in _COMPILED.items()
    ),
)

COMPILED_ONLY = frozenset(_COMPILED)
"""What a compiler knows and ncu does not tell."""
WORDS = frozenset({"occupancy_limiter", "tensor_instructions"})
"""Metrics whose values are words."""

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ROWS}
"""All short metrics by name. `kernels` is in combined rows only."""


def get(name: str) -> Metric | None:
    """The metric of this short name, None where the catalogue has none."""
    return METRICS.get(name)


def is_raw_name(name: str) -> bool:
    """Whether a name is spelled as ncu spells its own (`dram__bytes.sum`)."""
    return "__" in name


def nearest(name: str, extra: Iterable[str] = ()) -> list[str]:
    """Up to three known names that look like a misspelled one, the most alike first.

    Args:
        name: What the user wrote.
        extra: Names to look through beside the catalogue's, such as all raw ones of a report.
    """
    return difflib.get_close_matches(name, [*METRICS, *extra])


def ncu_metric_names() -> tuple[str, ...]:
    """Raw names to ask ncu for, so that every short metric that the chip has can be filled."""
    direct = [metric.ncu for metric in _ROWS if metric.ncu]
    return tuple(dict.fromkeys([*direct, *_LOCAL, *_ALL_WARPS, _stall_ratio("selected")]))


def short_metrics(raw: Mapping[str, MetricValue], units: Mapping[str, str]) -> dict[str, MetricValue]:
    """Fill the catalogue from raw values; what cannot be filled is left out, never 0.

    Args:
        raw: By raw ncu name.
        units: ncu's unit of each; ncu's base unit (`ns`, `byte`) is assumed where one is missing.
    """
    numbers = {
        name: to_base(value, units.get(name, ""))[0]
        for name, value in raw.items()
        if not isinstance(value, str)
    }
    short: dict[str, MetricValue] = {}
    for metric in _ROWS:
        if metric.ncu in numbers and not metric.name.startswith("stall."):
            value = numbers[metric.ncu]
            short[metric.name] = value / 1e3 if metric.unit == "us" else value
    # Full reports hold the two halves and not the whole.
    if "dram_bytes" not in short and all(name in numbers for name in _DRAM_READ_WRITE):
        short["dram_bytes"] = sum(numbers[name] for name in _DRAM_READ_WRITE)
    if all(name in numbers for name in _LOCAL):
        short["local_spill_instructions"] = sum(numbers[name] for name in _LOCAL)
    limits = {k: numbers[_limit(k)] for k in _LIMITERS if _limit(k) in numbers}
    if limits:
        short["occupancy_limiter"] = min(limits, key=lambda k: limits[k])
    return short | _stall_shares(numbers)


def _stall_shares(numbers: Mapping[str, float]) -> dict[str, float]:
    reasons = {k: numbers[_stall_ratio(k)] for k in (*_STALLS, "selected") if _stall_ratio(k) in numbers}
    whole = next((numbers[name] for name in _ALL_WARPS if numbers.get(name)), 0.0)
    # The sum over only some of the reasons would make every share too large.
    if not whole and reasons.keys() >= (_STALLS.keys() | {"selected"}) - _NOT_ON_EVERY_CHIP:
        whole = sum(reasons.values())
    if not whole:
        return {}
    return {f"stall.{k}": 100 * value / whole for k, value in reasons.items() if k != "selected"}


def top_stall(metrics: Mapping[str, MetricValue]) -> tuple[str, float] | None:
    """The largest `stall.*` of a row with its share in %, None where the row has none."""
    stalls = [
        (name, value)
        for name, value in metrics.items()
        if name.startswith("stall.") and not isinstance(value, str)
    ]
    return max(stalls, key=lambda stall: stall[1], default=None)
