"""All rules, and the diagnoses that they lead to.

`note` in a source is the list of limits by which people profile matrix products by hand: compute above 80 %
of its peak, memory above 70 % and tensor cores above 60 % are good; stalls on memory above 30 %, on barriers
above 25 % and on an arithmetic pipe above 20 %, and occupancy below 50 %, are worth a look. `ncu` with a
name is Nsight Compute's own rule of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.features.explain import bottleneck_rules, cause_rules
from pytest_gpuperf.features.explain.call_evidence import evidence_of
from pytest_gpuperf.features.explain.evidence import Evidence
from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.records import MetricValue, Timing, Trace


RULES = (*bottleneck_rules.RULES, *cause_rules.RULES)
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


def diagnose_call(trace: Trace) -> tuple[Diagnosis, ...]:
    """Diagnose a call by its kernel table."""
    values, products = evidence_of(trace)
    return diagnose(values, name=products)


def lines_of(diagnoses: Sequence[Diagnosis]) -> list[str]:
    """Return a line for each diagnosis, and one below it for the next step."""
    return [
        printable(line)
        for diagnosis in diagnoses
        for line in (str(diagnosis), f"  next: {diagnosis.next_step}")
    ]


def _clock_mhz(timing: Timing) -> float:
    """Return the mean clock of the blocks; without it, the clock that NVML read after they had ended."""
    return timing.sm_clock_mhz or (timing.conditions.sm_clock_mhz if timing.conditions else 0)
