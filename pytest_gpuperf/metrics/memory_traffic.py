"""Traffic between the levels of memory: hits, bytes, coalescing, bank conflicts, spills."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.metric import (
    Combining,
    Metric,
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


_analysis = partial(Metric, section="MemoryWorkloadAnalysis", better="higher", presets=("default", "memory"))
_mean = partial(Metric, section="MemoryWorkloadAnalysis_Tables", tier=Tier.NEAR_EXACT, presets=("memory",))
# Fewer are not better by themselves: the same work can be done in other ways, such as copies by TMA.
_count = partial(_mean, combining=Combining.SUM)
_bytes = partial(_count, better="lower", tier=Tier.STATE)


def _global_accesses(kind: str, op: str, sectors_tier: Tier) -> tuple[Metric, ...]:
    where = f"pipe_lsu_mem_global_op_{op}"
    requests, sectors = f"l1tex__t_requests_{where}.sum", f"l1tex__t_sectors_{where}.sum"
    return (
        _count(f"global_{kind}_requests", "request", f"{kind}s of global memory by a warp", one(requests)),
        _count(
            f"global_{kind}_sectors",
            "sector",
            f"32-byte sectors that {kind}s of global memory touch",
            one(sectors),
            tier=sectors_tier,
        ),
        _mean(
            f"global_{kind}_sectors_per_request",
            "sector",
            f"sectors that a {kind} of one warp touches: at best 4 for 4 bytes a thread, 16 for 16",
            (
                *one(f"l1tex__average_t_sectors_per_request_{where}.ratio", above_zero),
                Source((sectors, requests), ratio, requested=False),
            ),
            better="lower",
            tier=sectors_tier,
            presets=("default", "memory"),
        ),
        _mean(
            f"global_{kind}_bytes_per_sector",
            "byte",
            f"bytes used of each 32-byte sector that a {kind} of global memory touches",
            one(f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.ratio", above_zero),
            better="higher",
        ),
    )


MEMORY = (
    _analysis("l1_hit_rate", "%", "sectors found in L1", one("l1tex__t_sector_hit_rate.pct")),
    _analysis("l2_hit_rate", "%", "sectors found in L2", one("lts__t_sector_hit_rate.pct")),
    _bytes(
        "dram_bytes",
        "byte",
        "bytes moved to and from DRAM",
        (
            Source(("dram__bytes.sum",), chips=OWN_MEMORY),
            # Full reports hold the two halves and not the whole.
            Source(_READ_WRITE, total, requested=False),
            Source(_OP_READ_WRITE, total, requested=False),
        ),
        presets=("default", "memory", "roofline", "one-pass"),
    ),
    _analysis(
        "dram_gb_per_s",
        "GB/s",
        "bytes moved to and from DRAM per second",
        (
            Source(("dram__bytes.sum.per_second",), scaled(1e-9), OWN_MEMORY),
            # Bytes per nanosecond.
            Source(("dram__bytes.sum", _DURATION), ratio, requested=False),
            Source((_DURATION, *_READ_WRITE), _rate, requested=False),
            Source((_DURATION, *_OP_READ_WRITE), _rate, requested=False),
        ),
        presets=(),
    ),
    *(
        _bytes(
            f"dram_{kind}_bytes",
            "byte",
            f"bytes {direction} DRAM",
            (
                Source((_READ_WRITE[i],), chips=OWN_MEMORY - _GB20X),
                Source((_OP_READ_WRITE[i],), chips=_GB20X),
            ),
        )
        for i, (kind, direction) in enumerate({"read": "read from", "write": "written to"}.items())
    ),
    _bytes(
        "l2_bytes", "byte", "bytes requested from L2", one("lts__t_bytes.sum"), presets=("memory", "roofline")
    ),
    _count(
        "l2_read_sectors",
        "sector",
        "32-byte sectors that L1 reads from L2",
        one("lts__t_sectors_srcunit_tex_op_read.sum"),
        tier=Tier.STATE,
    ),
    *_global_accesses("load", "ld", Tier.NEAR_EXACT),
    # How L1 gathers the sectors of stores differs from run to run of the same code.
    *_global_accesses("store", "st", Tier.STATE),
    _count(
        "shared_wavefronts",
        "",
        "steps of shared memory accesses",
        one(_WAVEFRONTS),
        presets=("default", "memory"),
    ),
    _count(
        "shared_bank_conflicts",
        "",
        "additional steps due to bank conflicts",
        one(_CONFLICTS),
        tier=Tier.STATE,
    ),
    _mean(
        "bank_conflict_pct",
        "%",
        "shared memory steps due to bank conflicts, of all its steps",
        (Source((_CONFLICTS, _WAVEFRONTS), share),),
        better="lower",
        tier=Tier.STATE,
        weight=("shared_wavefronts",),
        presets=("default", "memory"),
    ),
    _count(
        "local_spill_instructions",
        "inst",
        "warp instructions that load or store local memory",
        (Source(_LOCAL, total),),
        better="lower",
        presets=("default", "memory"),
    ),
    _count(
        "local_spill_requests",
        "request",
        "loads and stores of spilled registers by a warp (since ncu 2025)",
        one("derived__local_spilling_requests"),
        presets=(),
    ),
)
