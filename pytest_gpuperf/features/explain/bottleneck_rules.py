"""Rules that say what bounds a kernel: a unit at its peak, too little work, or waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.features.explain.evidence import LAUNCH_US
from pytest_gpuperf.features.explain.rule import Rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.features.explain.evidence import Evidence
    from pytest_gpuperf.features.explain.rule import Said

RULES = Rules()

_TENSOR = (
    "the tensor pipe",
    "fewer or cheaper operations: a smaller type (FP8 since Ada), structured sparsity (since Ampere)",
)
_ISSUE = (
    "the issue slots",
    "fewer instructions for the same work: wider loads, unrolled loops, packed types",
)
PIPES: Mapping[str, tuple[str, str]] = {
    "tensor_active": _TENSOR,
    "pipe.tensor": _TENSOR,
    "pipe.fma": (
        "the FMA pipe",
        "tensor cores for products of matrices; else half precision, two at a time",
    ),
    "pipe.alu": (
        "the ALU",
        "fewer integer operations: indices computed outside of loops and in 32 bits, masks only at the edge",
    ),
    "pipe.fp64": ("the FP64 pipe", "float32, or sums of pairs of float32, if the accuracy allows"),
    "pipe.lsu": ("the load/store unit", "fewer and wider accesses: 16 bytes a thread, or TMA (since Hopper)"),
    "pipe.xu": (
        "the special-function unit",
        "fewer exp, log, sin, rsqrt and conversions: exp2 with the scale folded in, polynomials",
    ),
    "issue_active": _ISSUE,
    "instruction_throughput": _ISSUE,
}
"""Name of each pipe and advice, by the metric of its load."""
BUSY_CALL_PCT = 70.0
"""Busy share of a call, in %, below which launches cost as much as most kernels."""
_MAKES_THE_WHOLE = 10.0
"""Maximum distance, in points, of a pipe to the SM throughput that it explains."""


@RULES.row(
    "spilling",
    "loads and stores of local memory are {} % of the instructions or more",
    5,
    "own: fewer hide behind other work",
)
def spilling(evidence: Evidence, share_pct: float) -> Said:
    """Find local memory that takes a good part of the instructions."""
    spills, instructions = evidence.number("local_spill_instructions"), evidence.number("instructions")
    requests, registers = evidence.number("local_spill_requests"), evidence.number("registers_per_thread")
    share = 100 * spills / instructions if spills and instructions else 0.0
    if share >= share_pct:
        line = f"{share:.0f} % of the instructions load or store local memory: "
    elif requests and _is_worth(requests, instructions, registers):
        line = f"warps load or store spilled registers {requests:,.0f} times: "
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


@RULES.row(
    "too-small-grid",
    "less than {} wave of blocks, and neither compute nor memory at 60 %",
    1,
    "ncu SOLBottleneck",
)
def small_grid(evidence: Evidence, waves_of_gpu: float) -> Said:
    """Find a grid of fewer blocks than the GPU holds at once."""
    waves, roof = evidence.number("waves"), evidence.nearest_roof
    if waves is None or waves >= waves_of_gpu or roof is None or roof >= 60:
        return None
    grid, sms = evidence.number("grid_size"), evidence.number("sm_count")
    blocks = "its blocks are" if grid is None else f"{grid:.0f} blocks are" if grid > 1 else "one block is"
    empty = f"; {sms - grid:.0f} of {sms:.0f} SMs get none" if grid and sms and grid < sms else ""
    return (
        f"{blocks} {max(100 * waves, 0.1):.2g} % of those that the GPU holds at once{empty}",
        "more blocks (smaller tiles, split-K), or several such calls in one launch",
    )


@RULES.row(
    "launch-bound",
    "the kernel takes less than {} µs; or the GPU is busy less than "
    f"{BUSY_CALL_PCT:g} % of a call with several launches",
    LAUNCH_US,
    "a launch from Python takes 5 to 10 µs; own: nearly a third is lost",
)
def launch_bound(evidence: Evidence, launch_us: float) -> Said:
    """Find a kernel that is shorter than its launch, or a call in which the GPU waits for the host."""
    if evidence.number("gpu_busy") is not None:
        return _waits_for_launches(evidence)
    shortest = evidence.shortest_us
    if shortest is None or shortest >= launch_us:
        return None
    return (
        f"the kernel takes {shortest:.1f} µs, less than its launch from the host",
        "fuse it with its neighbours, or launch them together as a CUDA graph",
    )


def _waits_for_launches(evidence: Evidence) -> Said:
    busy, launches = evidence.number("gpu_busy"), evidence.number("launches")
    gap_us, gpu_time_us = evidence.number("launch_gap"), evidence.number("gpu_time_us")
    if busy is None or not launches or gap_us is None or gpu_time_us is None:
        return None
    if busy >= BUSY_CALL_PCT or launches < 2:
        return None
    mean_us = gpu_time_us / launches
    line = (
        f"the GPU is busy {busy:.0f} % of the call: {launches:.0f} launches of {mean_us:.1f} µs on average, "
        f"with {gap_us:.1f} µs from one to the next"
    )
    waits, by_host = evidence.number("synchronizations"), evidence.number("host_launches")
    if waits:
        return (
            f"{line}; the host waits for the GPU {waits:.0f} time{'' if waits == 1 else 's'}",
            "no .item(), .cpu() or branch on a value of the GPU; then a CUDA graph",
        )
    if by_host and by_host < launches / 2:
        return line, "fewer and longer kernels: the gaps are those of a CUDA graph, no longer the host's"
    return (
        line,
        "one CUDA graph (torch.cuda.graph), fewer kernels (torch.compile, fusion), or more work for each",
    )


@RULES.row(
    "compute-bound",
    "compute at {} % of its peak or more, and memory not above it",
    60,
    "ncu SOLBottleneck; note: tensor cores above 60 %",
)
def compute_bound(evidence: Evidence, bound_pct: float) -> Said:
    """Find SMs that are the busiest part."""
    compute, memory = evidence.number("sm_throughput"), evidence.number("memory_throughput")
    if compute is None or memory is None or compute < max(bound_pct, memory):
        return None
    known = {name: value for name in PIPES if (value := evidence.number(name)) is not None}
    busiest = max(known, key=known.__getitem__, default="")
    line = f"the SMs are at {compute:.0f} % of their peak"
    if not busiest or known[busiest] < compute - _MAKES_THE_WHOLE:
        return line, "read the preset sol, which tells the pipes apart"
    name, advice = PIPES[busiest]
    return f"{line}, by {name} ({known[busiest]:.0f} %)", advice


@RULES.row(
    "memory-bound",
    "memory at {} % of its peak or more, and compute not above it; or L2 at 80 %",
    60,
    "ncu SOLBottleneck",
)
def memory_bound(evidence: Evidence, bound_pct: float) -> Said:
    """Find a level of memory that is the busiest part."""
    compute, memory = evidence.number("sm_throughput"), evidence.number("memory_throughput")
    if compute is None or memory is None or compute >= max(memory, evidence.busy_l2 or 0.0):
        return None
    if memory < bound_pct:
        return None if evidence.busy_l2 is None else _l2_bound(evidence.busy_l2)
    dram, l2 = evidence.number("dram_throughput"), evidence.number("l2_throughput")
    if dram is not None and dram >= memory - 1:
        return (
            f"DRAM is at {dram:.0f} % of its peak",
            "fewer bytes: neighbouring kernels fused, smaller types, what is read twice kept in L2",
        )
    if l2 is None or (dram is None and l2 < memory - _MAKES_THE_WHOLE):
        return f"memory is at {memory:.0f} % of its peak", "read the preset memory, which tells levels apart"
    if l2 >= memory - _MAKES_THE_WHOLE:
        return _l2_bound(l2)
    return (
        f"L1 and shared memory are at {memory:.0f} % of their peak",
        "fewer and wider accesses, no bank conflicts, shuffles between the threads of a warp",
    )


def _l2_bound(throughput: float) -> tuple[str, str]:
    return (
        f"L2 is at {throughput:.0f} % of its peak",
        "fewer bytes through L2: larger tiles, shared memory, fused kernels, multicast (since Hopper)",
    )


@RULES.row("latency-bound", "both below {} %, with a wave of blocks or more", 60, "ncu SOLBottleneck")
def latency_bound(evidence: Evidence, bound_pct: float) -> Said:
    """Find a kernel with enough blocks in which nothing is near its peak."""
    compute, memory = evidence.number("sm_throughput"), evidence.number("memory_throughput")
    roof, waves = evidence.nearest_roof, evidence.number("waves")
    if roof is None or roof >= bound_pct or waves is None or waves < 1:
        return None
    return (
        f"neither compute ({compute:.0f} %) nor memory ({memory:.0f} %) comes near its peak",
        "more work in flight: independent loads and operations in each thread, more warps on each SM",
    )
