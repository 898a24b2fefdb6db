"""One launch in a file of ncu, before it gets short metrics."""

from __future__ import annotations

from pytest_gpuperf.features.ncu.rule_results import RuleResult  # noqa: TC001
from pytest_gpuperf.measure.counters.counter_source import RawKernel


class FileKernel(RawKernel, frozen=True):
    """One launch by raw ncu names, with everything else that the file tells about it."""

    rules: tuple[RuleResult, ...] = ()
    """Results of ncu rules, in ncu's order."""
    gpu: str = ""
    """Name of the GPU in the driver; empty if the file does not tell."""
    compute_capability: str = ""
    """`9.0`; empty if the file does not tell."""
    device: int | None = None
    """Number of the GPU among those of the process."""
    not_finite: int = 0
    """Number of metrics that are `nan` or infinite, as those of a failed launch are."""
