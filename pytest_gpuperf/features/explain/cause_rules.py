"""Rules for causes: stalls of warps, limits of occupancy, and costly ways to do the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.features.explain.call_evidence import OFF_TENSOR_CORES, is_for_tensor_cores
from pytest_gpuperf.features.explain.evidence import LAUNCH_US
from pytest_gpuperf.features.explain.rule import Rules

if TYPE_CHECKING:
    from pytest_gpuperf.features.explain.evidence import Evidence
    from pytest_gpuperf.features.explain.rule import Said

RULES = Rules()
SATURATED_PCT = 80.0
"""ncu's `no_bound_threshold`: a unit above it is saturated, whatever warps wait for."""
CALL_SHARE_PCT = 10.0
"""Share of a call's time below which another type is not worth it."""
_HALF = r"hgemm|[^a-z]b?f16|_bf16|_fp16|float16|half"
_FLOAT32 = r"sgemm|f32|fp32|ffma|\bfloat\b"
_BEFORE_TF32 = ("gv", "tu")
"""Starts of the names of the chips of Volta and Turing, which lack TF32 (CUDA programming guide)."""


def _waiting(code: str, share_pct: float, source: str, what: str, advice: str, *reasons: str) -> None:
    """Add a rule for warps that wait for one kind of thing."""

    @RULES.row(
        code,
        f"waiting for {what} has {{}} % of the warps' cycles or more, and no unit is at 80 %",
        share_pct,
        source,
    )
    def _says(evidence: Evidence, share_pct: float) -> Said:
        share, roof, shortest = evidence.stalls(*reasons), evidence.nearest_roof, evidence.shortest_us
        if share is None or share < share_pct or roof is None or roof >= SATURATED_PCT:
            return None
        if shortest is not None and shortest < LAUNCH_US:
            return None
        return f"warps wait for {what} in {share:.0f} % of their cycles", advice


_waiting(
    "synchronisation-bound",
    25,
    "note; the 80 % are ncu's",
    "others at barriers",
    "the same work for each warp of a block, smaller blocks, fewer barriers, or warps that specialise",
    "barrier",
    "membar",
)
_waiting(
    "memory-latency",
    30,
    "note; ncu CPIStall",
    "data from L1, L2 or DRAM",
    "more loads in flight: wider or unrolled loads, copies some stages ahead (cp.async, TMA since Hopper)",
    "long_scoreboard",
    "lg_throttle",
    "tex_throttle",
)
_waiting(
    "shared-memory-latency",
    30,
    "note; ncu CPIStall",
    "shared memory or special functions",
    "fewer and wider accesses of shared memory, shuffles in its place, no bank conflicts",
    "short_scoreboard",
    "mio_throttle",
)
_waiting(
    "math-throttled",
    20,
    "note",
    "a busy arithmetic pipe",
    "work for several pipes at a time: other instructions between those of the busy one",
    "math_pipe_throttle",
)


@RULES.row(
    "occupancy-limited",
    "less than {} % of the warps fit or are there, with a wave or more, and nothing at 60 %",
    50,
    "note; ncu TheoreticalOccupancy",
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


@RULES.row(
    "tensor-cores-idle",
    "the tensor pipe is busy less than {} % of the time in a product of matrices that it could do; "
    f"or such products without it have {CALL_SHARE_PCT:g} % of a call's GPU time or more",
    1,
    "own: a rest of other work",
)
def tensor_cores_idle(evidence: Evidence, busy_pct: float) -> Said:
    """Products of matrices without tensor cores, of a type that they take."""
    found = _products_of_call(evidence) or _product(evidence, busy_pct)
    kind = _type_of_product(evidence)
    if not found or not kind:
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
    return "" if kind == "float32" and evidence.chip.startswith(_BEFORE_TF32) else f"of {kind} by its {by}"


@RULES.row(
    "uncoalesced",
    "less than {} of 32 bytes of a sector are used; or more than 16 sectors a request",
    24,
    "own: a quarter is lost; 16 bytes a thread are the widest access (CUDA programming guide)",
)
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


@RULES.row(
    "bank-conflicts",
    "bank conflicts take {} % of the steps of shared memory or more",
    10,
    "ncu SharedMemoryConflicts",
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


@RULES.row(
    "power-limited",
    "the blocks of the time ran below 97 % of the highest SM clock, and NVML named a reason",
    0,
    "NVML",
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
