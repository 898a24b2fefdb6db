"""Evidence on a kernel for the rules: a metric that was not measured is None, never 0."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.report.number_format import number_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records import MetricValue


LAUNCH_US = 5.0
"""Time of a kernel, in µs, below which it is shorter than its launch, and its warps mostly wait for its own
start and end."""


@dataclass(frozen=True)
class Evidence:
    """Metrics of one launch, or of several combined, with time and clocks."""

    metrics: Mapping[str, MetricValue]
    """Values by short name."""
    name: str = ""
    """Function name and demangled name of the kernel, in one text."""
    chip: str = ""
    """Name of the GPU's chip, such as `gh100`; empty if not known."""
    time_us: float | None = None
    """Its time without a profiler, in microseconds."""
    sm_clock_mhz: float = 0.0
    """Clock of the SMs at that time; 0 if not known."""
    throttle_reasons: tuple[str, ...] = ()
    """Reasons for which the GPU held its clocks back at that time."""

    def number(self, name: str) -> float | None:
        """Return a metric's value; None if it is a word or was not measured."""
        return number_in(self.metrics, name)

    def word(self, name: str) -> str:
        """Return a metric's value if it is a word; else an empty text."""
        value = self.metrics.get(name)
        return value if isinstance(value, str) else ""

    def stalls(self, *reasons: str) -> float | None:
        """Return the share of these reasons in all warp cycles, in %."""
        known = [value for reason in reasons if (value := self.number(f"stall.{reason}")) is not None]
        return sum(known) if known else None

    def matches(self, pattern: str) -> bool:
        """Return True if the kernel's name matches this regex, in any case."""
        return re.search(pattern, self.name, re.IGNORECASE) is not None

    @property
    def shortest_us(self) -> float | None:
        """Time in µs, the shorter one of those with and without a profiler, under which caches are cold."""
        times = (self.number("duration_us"), self.time_us)
        return min((time for time in times if time is not None), default=None)

    @property
    def nearest_roof(self) -> float | None:
        """The larger speed of light of compute and memory, in %; None unless both are known."""
        compute, memory = self.number("sm_throughput"), self.number("memory_throughput")
        return None if compute is None or memory is None else max(compute, memory, self.busy_l2 or 0.0)

    @property
    def busy_l2(self) -> float | None:
        """Load of L2's busiest unit in %, if it is at its roof; else None.

        ncu's memory speed of light leaves some of L2's units out (seen on an H200: 56 % with an L2 at 83 %,
        for a copy that just fits into it).
        """
        value = self.number("l2_throughput")
        return value if value is not None and value >= 80 else None
