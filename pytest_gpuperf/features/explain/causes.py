"""Rules for causes: stalls of warps, limits of occupancy, and costly ways to do the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.features.explain.calls import OFF_TENSOR_CORES, is_for_tensor_cores

if TYPE_CHECKING:
    from pytest_gpuperf.features.explain.bounds import Said
    from pytest_gpuperf.features.explain.evidence import Evidence
    from pytest_gpuperf.metrics.chips import Feature

SATURATED_PCT = 80.0
"""ncu's `no_bound_threshold`: a unit above it is saturated, whatever warps wait for."""
LAUNCH_US = 5.0
"""Time of a kernel, in µs, below which its warps mostly wait for its own start and end."""
CALL_SHARE_PCT = 10.0
"""Share of a call's time below which another type is not worth it."""
_HALF = r"hgemm|[^a-z]b?f16|_bf16|_fp16|float16|half"
_FLOAT32 = r"sgemm|f32|fp32|ffma|\bfloat\b"


def spilling(evidence: Evidence, share_pct: float) -> Said:
    """Find local memory that takes a good part of the instructions."""
    spills, instructions = evidence.number("local_spill_instructions"), evidence.number("instructions")
    requests, registers = evidence.number("local_spill_requests"), evidence.number("registers_per_thread")
    share = 100 * spills / instructions if spills and instructions else 0.0
    if share >= share_pct:
        line = f"{share:.0f} % of the instructions load or store local memory: "
    elif requests and _is_worth(requests, instructions, registers):
        line = f"warps load or store spilled registers {_count(requests)} times: "
    else:
        return None
    if registers is not None and registers >= 255:
        line += "a thread needs more than the 255 registers there are"
    else:
        line += "spilled registers, or an array that is indexed at run time"
    return (
        line,
        "less in each thread: smaller tiles, more warps a block, loops not unrolled",
    )


def _is_worth(requests: float, instructions: float | None, registers: float | None) -> bool:
    """Return True if spill requests are many, or a part of the work of a thread without a register left."""
    if instructions:
        return 100 * requests / instructions >= (0.1 if registers is not None and registers >= 255 else 5)
    return registers is None or registers >= 255 or requests >= 1e6


def _count(number: float) -> str:
    for unit, name in ((1e9, "billion"), (1e6, "million")):
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number:,.0f}"


def _waiting(evidence: Evidence, share_pct: float, *reasons: str) -> float | None:
    """Return the share of stall reasons; None if it is small, a unit is saturated or the kernel is short."""
    share, roof = evidence.stalls(*reasons), evidence.nearest_roof
    if share is None or share < share_pct or roof is None or roof >= SATURATED_PCT:
        return None
    shortest = evidence.shortest_us
    return None if shortest is not None and shortest < LAUNCH_US else share


def memory_latency(evidence: Evidence, share_pct: float) -> Said:
    """Find warps that wait for data."""
    share = _waiting(evidence, share_pct, "long_scoreboard", "lg_throttle", "tex_throttle")
    if share is None:
        return None
    return (
        f"warps wait for data from L1, L2 or DRAM in {share:.0f} % of their cycles",
        f"more loads in flight: wider or unrolled loads, {_copies_ahead(evidence)}",
    )


def _copies_ahead(evidence: Evidence) -> str:
    if not evidence.chip:
        return "copies some stages ahead (cp.async since Ampere, TMA since Hopper)"
    features: tuple[Feature, ...] = ("cp.async", "TMA")
    ways = [feature for feature in features if evidence.may_have(feature)]
    return f"copies some stages ahead ({', '.join(ways)})" if ways else "loads into registers a step ahead"


def shared_memory_latency(evidence: Evidence, share_pct: float) -> Said:
    """Find warps that wait for shared memory."""
    share = _waiting(evidence, share_pct, "short_scoreboard", "mio_throttle")
    if share is None:
        return None
    return (
        f"warps wait for shared memory or special functions in {share:.0f} % of their cycles",
        "fewer and wider accesses of shared memory, shuffles in its place, no bank conflicts",
    )


def synchronisation_bound(evidence: Evidence, share_pct: float) -> Said:
    """Find warps that wait for each other."""
    share = _waiting(evidence, share_pct, "barrier", "membar")
    if share is None:
        return None
    return (
        f"warps wait for others at barriers in {share:.0f} % of their cycles",
        "the same work for each warp of a block, smaller blocks, fewer barriers, or warps that specialise",
    )


def math_throttled(evidence: Evidence, share_pct: float) -> Said:
    """Find warps that queue for an arithmetic pipe."""
    share = _waiting(evidence, share_pct, "math_pipe_throttle")
    if share is None:
        return None
    return (
        f"warps wait for a busy arithmetic pipe in {share:.0f} % of their cycles",
        "work for several pipes at a time: other instructions between those of the busy one",
    )


def occupancy_limited(evidence: Evidence, occupancy_pct: float) -> Said:
    """Find an occupancy too low to hide latency in a grid with enough blocks."""
    roof, waves = evidence.nearest_roof, evidence.number("waves")
    if roof is None or roof >= 60 or waves is None or waves < 1:
        return None
    fits, achieved = evidence.number("theoretical_occupancy"), evidence.number("achieved_occupancy")
    if fits is not None and fits < occupancy_pct:
        limiter, registers = evidence.word("occupancy_limiter"), evidence.number("registers_per_thread")
        by = f", by their {limiter.replace('shared_mem', 'shared memory')}" if limiter else ""
        if limiter == "registers" and registers is not None:
            by = f", by their {registers:.0f} registers a thread"
        return (
            f"at most {fits:.0f} % of the warps that an SM can hold fit on it{by}",
            "smaller tiles or fewer stages, so that more blocks fit; more warps a block if blocks are few",
        )
    if fits is not None and achieved is not None and achieved < min(occupancy_pct, 0.9 * fits):
        return (
            f"only {achieved:.0f} % of the warps that an SM can hold are there, though {fits:.0f} % fit",
            "as much work for each block, and a grid of whole waves: some SMs are done early",
        )
    return None


def tensor_cores_idle(evidence: Evidence, busy_pct: float) -> Said:
    """Products of matrices without tensor cores, of a type that they take."""
    found = _products_of_call(evidence) or _product(evidence, busy_pct)
    kind = _type_of_product(evidence)
    if not found or not kind or not evidence.may_have("tensor cores"):
        return None
    return (
        f"{found}, {kind}",
        "TF32 if 10 bits of mantissa are enough (torch.set_float32_matmul_precision), or bfloat16"
        if "float32" in kind
        else "a library's product, or mma (tl.dot) on tiles of 16 x 16 or more with aligned rows",
    )


def _products_of_call(evidence: Evidence) -> str:
    share = evidence.number(OFF_TENSOR_CORES)
    if share is None or share < CALL_SHARE_PCT:
        return ""
    return f"{share:.0f} % of the GPU's time goes into products of matrices without tensor cores"


def _product(evidence: Evidence, busy_pct: float) -> str:
    busy = evidence.number("tensor_active")
    if busy is None:
        busy = evidence.number("pipe.tensor")
    if busy is None or busy >= busy_pct or not is_for_tensor_cores(evidence.name):
        return ""
    return f"tensor cores are busy {busy:.1f} % of the time in a product of matrices"


def _type_of_product(evidence: Evidence) -> str:
    """Return the type by the name, else by the operations; empty if unknown, or if tensor cores lack it."""
    half, single = evidence.number("flops.fp16") or 0.0, evidence.number("flops.fp32") or 0.0
    by = "name"
    if evidence.matches(_HALF):
        kind = "half precision"
    elif evidence.matches(_FLOAT32):
        kind = "float32"
    elif half or single:
        kind, by = "half precision" if half > single else "float32", "operations"
    else:
        return ""
    return "" if kind == "float32" and not evidence.may_have("TF32") else f"of {kind} by its {by}"


def uncoalesced(evidence: Evidence, bytes_used: float) -> Said:
    """Find warps that touch more sectors than they need."""
    instructions = evidence.number("instructions")
    lines = []
    for kind in ("load", "store"):
        requests = evidence.number(f"global_{kind}_requests")
        if requests is not None and instructions and requests < 0.01 * instructions:
            continue
        used = evidence.number(f"global_{kind}_bytes_per_sector")
        sectors = evidence.number(f"global_{kind}_sectors_per_request")
        if used is not None:
            if used < bytes_used:
                lines.append(f"{kind}s use {used:.0f} of each 32 bytes that they move")
        # A warp's widest access has 16 bytes a thread, 16 sectors if they are adjacent.
        elif sectors is not None and sectors > 16.5:
            lines.append(f"a warp's {kind} touches {sectors:.0f} sectors; 16 are enough for its widest")
    if not lines:
        return None
    return (
        " and ".join(lines),
        "neighbouring threads on neighbouring addresses, rows that begin at multiples of 32 bytes",
    )


def bank_conflicts(evidence: Evidence, share_pct: float) -> Said:
    """Find bank conflicts of shared memory."""
    share = evidence.number("bank_conflict_pct")
    if share is None or share < share_pct:
        return None
    return (
        f"bank conflicts take {share:.0f} % of the steps in which shared memory is served",
        "padded rows or a swizzled layout, so that the threads of a warp use different banks",
    )


def power_limited(evidence: Evidence, _: float) -> Said:
    """Find a time during which the GPU held its clocks back."""
    if not evidence.throttle_reasons:
        return None
    clock = f" to {evidence.sm_clock_mhz:.0f} MHz" if evidence.sm_clock_mhz else ""
    return (
        f"the GPU held its clock back{clock} ({', '.join(evidence.throttle_reasons)})",
        "a wide tolerance: such a time depends on the temperature of the GPU and on earlier work",
    )
