"""Table of all rules, with their thresholds and the sources of these.

`note` in a source is the list of limits by which people profile matrix products by hand: compute above 80 %
of its peak, memory above 70 % and tensor cores above 60 % are good; stalls on memory above 30 %, on barriers
above 25 % and on an arithmetic pipe above 20 %, and occupancy below 50 %, are worth a look. `ncu` with a
name is Nsight Compute's own rule of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.features.explain import bounds, causes
from pytest_gpuperf.features.explain.evidence import Evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gpuperf.features.explain.bounds import Said
    from pytest_gpuperf.records import MetricValue, Timing


@dataclass(frozen=True)
class Rule:
    """One possible problem of a kernel, or of a call that launches several."""

    code: str
    """Stays the same from version to version."""
    when: str
    """Condition, with `{}` for the threshold."""
    threshold: float
    source: str
    """Source of the threshold."""
    says: Callable[[Evidence, float], Said]

    @property
    def condition(self) -> str:
        """Condition with the threshold."""
        return self.when.format(f"{self.threshold:g}")


RULES = (
    Rule(
        "spilling",
        "loads and stores of local memory are {} % of the instructions or more",
        5,
        "own: fewer hide behind other work",
        causes.spilling,
    ),
    Rule(
        "too-small-grid",
        "less than {} wave of blocks, and neither compute nor memory at 60 %",
        1,
        "ncu SOLBottleneck",
        bounds.small_grid,
    ),
    Rule(
        "launch-bound",
        "the kernel takes less than {} µs; or the GPU is busy less than "
        f"{bounds.BUSY_CALL_PCT:g} % of a call with several launches",
        causes.LAUNCH_US,
        "a launch from Python takes 5 to 10 µs; own: nearly a third is lost",
        bounds.launch_bound,
    ),
    Rule(
        "compute-bound",
        "compute at {} % of its peak or more, and memory not above it",
        60,
        "ncu SOLBottleneck; note: tensor cores above 60 %",
        bounds.compute_bound,
    ),
    Rule(
        "memory-bound",
        "memory at {} % of its peak or more, and compute not above it; or L2 at 80 %",
        60,
        "ncu SOLBottleneck",
        bounds.memory_bound,
    ),
    Rule(
        "latency-bound",
        "both below {} %, with a wave of blocks or more",
        60,
        "ncu SOLBottleneck",
        bounds.latency_bound,
    ),
    Rule(
        "synchronisation-bound",
        "barriers have {} % of the warps' cycles or more, and no unit is at 80 %",
        25,
        "note; the 80 % are ncu's",
        causes.synchronisation_bound,
    ),
    Rule(
        "memory-latency",
        "waiting for global memory has {} % of the warps' cycles or more, and no unit is at 80 %",
        30,
        "note; ncu CPIStall",
        causes.memory_latency,
    ),
    Rule(
        "shared-memory-latency",
        "waiting for shared memory has {} % of the warps' cycles or more, and no unit is at 80 %",
        30,
        "note; ncu CPIStall",
        causes.shared_memory_latency,
    ),
    Rule(
        "math-throttled",
        "waiting for an arithmetic pipe has {} % of the warps' cycles or more, and no unit is at 80 %",
        20,
        "note",
        causes.math_throttled,
    ),
    Rule(
        "occupancy-limited",
        "less than {} % of the warps fit or are there, with a wave or more, and nothing at 60 %",
        50,
        "note; ncu TheoreticalOccupancy",
        causes.occupancy_limited,
    ),
    Rule(
        "tensor-cores-idle",
        "the tensor pipe is busy less than {} % of the time in a product of matrices that it could do; "
        f"or such products without it have {causes.CALL_SHARE_PCT:g} % of a call's GPU time or more",
        1,
        "own: a rest of other work",
        causes.tensor_cores_idle,
    ),
    Rule(
        "uncoalesced",
        "less than {} of 32 bytes of a sector are used; or more than 16 sectors a request",
        24,
        "own: a quarter is lost; 16 bytes a thread are the widest access (CUDA programming guide)",
        causes.uncoalesced,
    ),
    Rule(
        "bank-conflicts",
        "bank conflicts take {} % of the steps of shared memory or more",
        10,
        "ncu SharedMemoryConflicts",
        causes.bank_conflicts,
    ),
    Rule(
        "power-limited",
        "the blocks of the time ran below 97 % of the highest SM clock, and NVML named a reason",
        0,
        "NVML",
        causes.power_limited,
    ),
)
"""The most important first."""


@dataclass(frozen=True)
class Diagnosis:
    """Result of one rule for a kernel or a call."""

    code: str
    line: str
    """Fact with its values."""
    next_step: str
    """Next step."""

    def __str__(self) -> str:
        """Return `memory-bound: DRAM is at 85 % of its peak`."""
        return f"{self.code}: {self.line}"


def diagnose(
    metrics: Mapping[str, MetricValue], *, name: str = "", chip: str = "", timing: Timing | None = None
) -> tuple[Diagnosis, ...]:
    """Diagnose a kernel, the most important problem first.

    A rule whose metrics were not measured is silent.

    Args:
        metrics: By short name.
        name: Function name of the kernel, and its demangled name, for facts that counters do not tell.
        chip: Name of the GPU's chip, such as `gh100`; empty if not known.
        timing: The time of a call that launches only this kernel, without a profiler.
    """
    evidence = Evidence(
        metrics,
        name,
        chip,
        time_us=timing.time_us if timing else None,
        sm_clock_mhz=_clock_mhz(timing) if timing else 0,
        throttle_reasons=timing.held_back if timing else (),
    )
    found = [(rule, rule.says(evidence, rule.threshold)) for rule in RULES]
    return tuple(Diagnosis(rule.code, *said) for rule, said in found if said is not None)


def _clock_mhz(timing: Timing) -> float:
    """Return the mean clock of the blocks; without it, the clock that NVML read after they had ended."""
    return timing.sm_clock_mhz or (timing.conditions.sm_clock_mhz if timing.conditions else 0)
