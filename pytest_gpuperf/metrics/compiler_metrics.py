"""Metrics that only a compiler knows: ncu does not report them, and they need no GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.metrics.metric import Combining, Metric, Tier

if TYPE_CHECKING:
    from pytest_gpuperf.metrics.metric import Better


def _fact(name: str, unit: str, better: Better, explanation: str) -> Metric:
    explanation = f"compiled only: {explanation}"
    return Metric(name, unit, explanation, better=better, tier=Tier.EXACT, combining=Combining.SAME)


COMPILED = (
    _fact(
        "spills",
        "byte",
        "lower",
        "bytes that a thread stores and loads because registers ran out; limits of measured calls read "
        "local_spill_instructions",
    ),
    _fact("stack_bytes", "byte", "lower", "local memory of a thread"),
    _fact("shared_memory_bytes", "byte", "lower", "static and dynamic shared memory of a block"),
    _fact("blocks_per_sm", "block", "higher", "blocks that fit on an SM"),
    _fact("code_bytes", "byte", "", "machine code of the kernel"),
    _fact("widest_load_bits", "bit", "higher", "widest load of one thread from global memory"),
    _fact("tensor_instructions", "", "", "which of mma.sync, wmma, wgmma and tcgen05 the code has, or none"),
    _fact(
        "copy_instructions",
        "",
        "",
        "which of cp.async, cp.async.bulk and cp.async.bulk.tensor (TMA) the code has, or none",
    ),
)
