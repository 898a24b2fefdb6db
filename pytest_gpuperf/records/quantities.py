"""Range of each number that a file can have: what hardware, time and arithmetic allow.

A number outside is an error of the file. The ranges are wide: a counter of ncu can be above 100 % of a peak,
because its parts are read in different passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec

from pytest_gpuperf.statistics.clock_model import MOST_SHARE_ERROR
from pytest_gpuperf.statistics.decision import MAX_TOLERANCE_PCT

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Range:
    """Smallest and largest value of a number."""

    low: float
    high: float
    unit: str = ""
    whole: bool = False
    """True if the number has no fraction."""
    or_zero: bool = False
    """True if 0 is possible, too, and stands for unknown."""

    def holds(self, value: float) -> bool:
        """Return True if a value is possible; NaN never is."""
        inside = self.low <= value <= self.high or (self.or_zero and value == 0)
        # A conversion of units leaves differences in the last digits.
        return inside and not (self.whole and abs(value - round(value)) > 1e-9 * abs(value))

    def __str__(self) -> str:
        """Return `a whole number from 0 to 255`."""
        kind = "a whole number" if self.whole else "a number"
        unit = f" {self.unit}" if self.unit else ""
        zero = ", or 0" if self.or_zero else ""
        return f"{kind} from {_show(self.low)} to {_show(self.high)}{unit}{zero}"

    @property
    def meta(self) -> msgspec.Meta:
        """Constraint for a field of a record; `or_zero` lets all numbers below `high` through."""
        low = 0 if self.or_zero else self.low
        return msgspec.Meta(ge=low, le=self.high, description=str(self))


def _show(value: float) -> str:
    """Return `65,535`, `0.15` or `1e+12`."""
    return f"{value:,.0f}" if value % 1 == 0 and abs(value) < 1e10 else f"{value:g}"


_MAX_INT = 2**63 - 1
_COUNT = Range(0, _MAX_INT, whole=True)
TIME = Range(1e-6, 1e12, "µs")
DURATION = Range(0, 1e12, "µs")
CLOCK = Range(1, 10_000, "MHz", or_zero=True)
_SHARE = Range(0, 101, "%")
REGISTERS = Range(0, 255, whole=True)
MAX_BLOCK = 1024
"""Maximum number of threads of a block."""
BLOCK = Range(0, MAX_BLOCK, whole=True)
SHARED_MEMORY = Range(0, 2**24, "bytes", whole=True)

RELATIVE_TOLERANCE = Range(0, 1e6)
ABSOLUTE_TOLERANCE = Range(0, 1e300)

Time: TypeAlias = Annotated[float, TIME.meta]
"""Time of a call, in microseconds."""
TimeOrZero: TypeAlias = Annotated[float, Range(TIME.low, TIME.high, "µs", or_zero=True).meta]
Difference: TypeAlias = Annotated[float, Range(-TIME.high, TIME.high, "µs").meta]
"""Time in microseconds from which another one is subtracted: noise may leave less than 0."""
Remainder: TypeAlias = Annotated[float, Range(-0.1, TIME.high, "µs").meta]
"""Difference of two sums of times, in microseconds: rounding may leave less than 0."""
Duration: TypeAlias = Annotated[float, DURATION.meta]
"""Sum of times, in microseconds."""
Seconds: TypeAlias = Annotated[float, Range(0, 1e9, "s").meta]
Clock: TypeAlias = Annotated[float, CLOCK.meta]
"""Mean clock of the SMs, in MHz; 0 if unknown."""
ClockReading: TypeAlias = Annotated[int, Range(0, 10_000, "MHz", whole=True).meta]
MemoryClock: TypeAlias = Annotated[int, Range(0, 100_000, "MHz", whole=True).meta]
Temperature: TypeAlias = Annotated[int, Range(0, 1000, "°C", whole=True).meta]
Power: TypeAlias = Annotated[float, Range(0, 100_000, "W").meta]
Spread: TypeAlias = Annotated[float, Range(0, 1e6, "%").meta]
Share: TypeAlias = Annotated[float, _SHARE.meta]
"""Part of a whole, in %; a sum of shares may be above 100 by rounding."""
Occupancy: TypeAlias = Annotated[float, Range(0, 100, "%").meta]
Tolerance: TypeAlias = Annotated[
    float,
    msgspec.Meta(gt=0, le=MAX_TOLERANCE_PCT, description=f"a number above 0, up to {MAX_TOLERANCE_PCT} %"),
]
ToleranceOrZero: TypeAlias = Annotated[float, Range(0, MAX_TOLERANCE_PCT, "%").meta]
RelativeTolerance: TypeAlias = Annotated[float, RELATIVE_TOLERANCE.meta]
AbsoluteTolerance: TypeAlias = Annotated[float, ABSOLUTE_TOLERANCE.meta]
LogRatio: TypeAlias = Annotated[float, Range(-20, 20).meta]
"""Natural logarithm of the ratio of two times."""
Count: TypeAlias = Annotated[int, _COUNT.meta]
MOST_LIMITS = 1000
"""Maximum number of limits that a test can state."""
LimitTexts: TypeAlias = Annotated[
    tuple[Annotated[str, msgspec.Meta(max_length=300, description="at most 300 characters")], ...],
    msgspec.Meta(max_length=MOST_LIMITS, description=f"at most {MOST_LIMITS:,} limits"),
]
"""Limits such as `memory_throughput >= 60`; untrusted until `parse_limit` has read them."""
Comparisons: TypeAlias = Annotated[int, Range(0, 1_000_000, whole=True).meta]
Positive: TypeAlias = Annotated[int, Range(1, 10**9, whole=True).meta]
Schema: TypeAlias = Annotated[int, Range(1, 10**6, whole=True).meta]
Multiprocessors: TypeAlias = Annotated[int, Range(0, 10_000, whole=True).meta]
Registers: TypeAlias = Annotated[int, REGISTERS.meta]
SharedMemory: TypeAlias = Annotated[int, SHARED_MEMORY.meta]
Ratio: TypeAlias = Annotated[float, Range(0, 1e12).meta]
Number: TypeAlias = Annotated[float, Range(-1e300, 1e300).meta]
Grid: TypeAlias = tuple[
    Annotated[int, Range(0, 2**31 - 1, "blocks", whole=True).meta],
    Annotated[int, Range(0, 65_535, "blocks", whole=True).meta],
    Annotated[int, Range(0, 65_535, "blocks", whole=True).meta],
]
Block: TypeAlias = tuple[
    Annotated[int, BLOCK.meta], Annotated[int, BLOCK.meta], Annotated[int, Range(0, 64, whole=True).meta]
]
Cluster: TypeAlias = tuple[Count, Count, Count]

CLOCK_MODEL: Mapping[str, Range] = {
    "cycles": Range(0, 1e16),
    "fixed_us": DURATION,
    "reference_mhz": Range(CLOCK.low, CLOCK.high, "MHz"),
    "share_error": Range(0, MOST_SHARE_ERROR),
}
"""Ranges of the fields of a `ClockModel`."""
