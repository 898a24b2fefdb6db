"""Traffic between the levels of memory: hits, bytes, coalescing, bank conflicts, spills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.metric import (
    Better,
    Combining,
    Metric,
    Preset,
    Source,
    Tier,
    above_zero,
    one,
    ratio,
    scaled,
    share,
    total,
)
from pytest_gpuperf.metrics.speed_of_light import OWN_MEMORY

if TYPE_CHECKING:
    from collections.abc import Sequence

_ANALYSIS, _TABLES = "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables"

_READ_WRITE = ("dram__bytes_read.sum", "dram__bytes_write.sum")
_OP_READ_WRITE = ("dram__bytes_op_read.sum", "dram__bytes_op_write.sum")
_DURATION = "gpu__time_duration.sum"
_GB20X = frozenset({"gb202"})
_LOCAL = ("smsp__sass_inst_executed_op_local_ld.sum", "smsp__sass_inst_executed_op_local_st.sum")
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"


def _rate(values: Sequence[float]) -> float | None:
    """Return the sum of all values but the first, over the first."""
    return ratio((total(values[1:]), values[0]))


def _analysis(
    name: str, unit: str, explanation: str, *sources: Source, presets: tuple[Preset, ...] = ()
) -> Metric:
    return Metric(name, unit, _ANALYSIS, explanation, sources, better="higher", presets=presets)


def _hit_rate(name: str, raw: str, explanation: str) -> Metric:
    return _analysis(name, "%", explanation, Source((raw,)), presets=("default", "memory"))


def _bytes(name: str, explanation: str, *sources: Source, presets: tuple[Preset, ...]) -> Metric:
    combining = Combining.SUM
    return Metric(
        name, "byte", _TABLES, explanation, sources, better="lower", combining=combining, presets=presets
    )


def _count(
    name: str,
    unit: str,
    raw: str,
    explanation: str,
    tier: Tier = Tier.NEAR_EXACT,
    *,
    presets: tuple[Preset, ...] = ("memory",),
) -> Metric:
    # Fewer are not better by themselves: the same work can be done in other ways, such as copies by TMA.
    combining = Combining.SUM
    return Metric(name, unit, _TABLES, explanation, one(raw), tier=tier, combining=combining, presets=presets)


def _mean(
    name: str,
    unit: str,
    better: Better,
    explanation: str,
    *sources: Source,
    tier: Tier = Tier.NEAR_EXACT,
    presets: tuple[Preset, ...] = ("memory",),
) -> Metric:
    return Metric(name, unit, _TABLES, explanation, sources, better=better, tier=tier, presets=presets)


def _global_accesses(kind: str, op: str, sectors_tier: Tier) -> tuple[Metric, ...]:
    where = f"pipe_lsu_mem_global_op_{op}"
    requests, sectors = f"l1tex__t_requests_{where}.sum", f"l1tex__t_sectors_{where}.sum"
    return (
        _count(f"global_{kind}_requests", "request", requests, f"{kind}s of global memory by a warp"),
        _count(
            f"global_{kind}_sectors",
            "sector",
            sectors,
            f"32-byte sectors that {kind}s of global memory touch",
            sectors_tier,
        ),
        _mean(
            f"global_{kind}_sectors_per_request",
            "sector",
            "lower",
            f"sectors that a {kind} of one warp touches: at best 4 for 4 bytes a thread, 16 for 16",
            Source((f"l1tex__average_t_sectors_per_request_{where}.ratio",), above_zero),
            Source((sectors, requests), ratio, requested=False),
            tier=sectors_tier,
            presets=("default", "memory"),
        ),
        _mean(
            f"global_{kind}_bytes_per_sector",
            "byte",
            "higher",
            f"bytes used of each 32-byte sector that a {kind} of global memory touches",
            Source((f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.ratio",), above_zero),
        ),
    )


MEMORY = (
    _hit_rate("l1_hit_rate", "l1tex__t_sector_hit_rate.pct", "sectors found in L1"),
    _hit_rate("l2_hit_rate", "lts__t_sector_hit_rate.pct", "sectors found in L2"),
    _bytes(
        "dram_bytes",
        "bytes moved to and from DRAM",
        Source(("dram__bytes.sum",), chips=OWN_MEMORY),
        # Full reports hold the two halves and not the whole.
        Source(_READ_WRITE, total, requested=False),
        Source(_OP_READ_WRITE, total, requested=False),
        presets=("default", "memory", "roofline", "one-pass"),
    ),
    _analysis(
        "dram_gb_per_s",
        "GB/s",
        "bytes moved to and from DRAM per second",
        Source(("dram__bytes.sum.per_second",), scaled(1e-9), OWN_MEMORY),
        # Bytes per nanosecond.
        Source(("dram__bytes.sum", _DURATION), ratio, requested=False),
        Source((_DURATION, *_READ_WRITE), _rate, requested=False),
        Source((_DURATION, *_OP_READ_WRITE), _rate, requested=False),
    ),
    *(
        _bytes(
            f"dram_{kind}_bytes",
            f"bytes {direction} DRAM",
            Source((_READ_WRITE[i],), chips=OWN_MEMORY - _GB20X),
            Source((_OP_READ_WRITE[i],), chips=_GB20X),
            presets=("memory",),
        )
        for i, (kind, direction) in enumerate({"read": "read from", "write": "written to"}.items())
    ),
    _bytes(
        "l2_bytes", "bytes requested from L2", Source(("lts__t_bytes.sum",)), presets=("memory", "roofline")
    ),
    _count(
        "l2_read_sectors",
        "sector",
        "lts__t_sectors_srcunit_tex_op_read.sum",
        "32-byte sectors that L1 reads from L2",
        Tier.STATE,
    ),
    *_global_accesses("load", "ld", Tier.NEAR_EXACT),
    # How L1 gathers the sectors of stores differs from run to run of the same code.
    *_global_accesses("store", "st", Tier.STATE),
    _count(
        "shared_wavefronts",
        "",
        _WAVEFRONTS,
        "steps of shared memory accesses",
        presets=("default", "memory"),
    ),
    _count("shared_bank_conflicts", "", _CONFLICTS, "additional steps due to bank conflicts", Tier.STATE),
    Metric(
        "bank_conflict_pct",
        "%",
        _TABLES,
        "shared memory steps due to bank conflicts, of all its steps",
        (Source((_CONFLICTS, _WAVEFRONTS), share),),
        better="lower",
        weight=("shared_wavefronts",),
        presets=("default", "memory"),
    ),
    Metric(
        "local_spill_instructions",
        "inst",
        _TABLES,
        "warp instructions that load or store local memory",
        (Source(_LOCAL, total),),
        better="lower",
        tier=Tier.NEAR_EXACT,
        combining=Combining.SUM,
        presets=("default", "memory"),
    ),
    _count(
        "local_spill_requests",
        "request",
        "derived__local_spilling_requests",
        "loads and stores of spilled registers by a warp (since ncu 2025)",
        presets=(),
    ),
)
