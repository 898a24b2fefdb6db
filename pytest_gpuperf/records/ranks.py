"""Times of a call that runs on several GPUs at once, by rank, and the bandwidths that follow from them.

The bandwidths are those of nccl-tests, so that both can be compared:
https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.number_ranges import Duration, Remainder, Time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Collective: TypeAlias = Literal["", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"]
"""Empty for a callable that is none of them: it has no bus bandwidth."""


def _all_but_own(world: int) -> float:
    return (world - 1) / world


BUS_FACTORS: Mapping[str, Callable[[int], float]] = {
    "all_reduce": lambda world: 2 * _all_but_own(world),
    "all_gather": _all_but_own,
    "reduce_scatter": _all_but_own,
    "all_to_all": _all_but_own,
    "broadcast": lambda _: 1.0,
}
"""Bus over algorithm bandwidth, by the number of ranks: the product is the rate of the links, whatever the
number of ranks is."""


class RankTime(Record, frozen=True, kw_only=True):
    """Time of a call on one rank, in microseconds."""

    time_us: Time
    """From the end of the barrier before the call to the end of the rank's own work."""
    gpu_busy_us: Duration = 0.0
    """Time in which a kernel, fill or copy ran on its GPU, by torch.profiler; 0 if not recorded."""
    communication_us: Duration = 0.0
    """Time in which a kernel moved data between GPUs."""
    exposed_us: Remainder = 0.0
    """The part of `communication_us` in which nothing was computed."""


class RankTimes(Record, frozen=True, kw_only=True):
    """Times of a call on all ranks; the time of the call is the mean of the slowest rank of each call."""

    collective: Collective = ""
    ranks: Annotated[tuple[RankTime, ...], msgspec.Meta(min_length=1)]
    """One for each rank, in their order."""
    skew_us: Duration = 0.0
    """Slowest less fastest rank, mean over the calls."""
    late: bool = False
    """True if the host of a rank could not queue its calls ahead, so that the times include launches."""

    @property
    def smallest_us(self) -> float:
        """Time of the fastest rank."""
        return min(one.time_us for one in self.ranks)

    @property
    def median_us(self) -> float:
        """Median time over the ranks."""
        return median(one.time_us for one in self.ranks)

    @property
    def largest_us(self) -> float:
        """Time of the slowest rank."""
        return max(one.time_us for one in self.ranks)

    @property
    def exposed_us(self) -> float | None:
        """Largest exposed communication of a rank; None if not recorded."""
        recorded = [one.exposed_us for one in self.ranks if one.gpu_busy_us]
        return max(recorded, default=None)

    @property
    def bus_factor(self) -> float | None:
        """Bus over algorithm bandwidth; None for a callable that is no collective."""
        factor = BUS_FACTORS.get(self.collective)
        return None if factor is None else factor(len(self.ranks))
