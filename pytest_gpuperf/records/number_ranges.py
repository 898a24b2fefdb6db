"""Wide range of each number that a file can have, as types: msgspec refuses one outside, and NaN."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from pytest_gpuperf.statistics.decision import MAX_TOLERANCE_PCT

LEAST_US, LEAST_MHZ, MOST_MHZ = 1e-6, 1, 10_000
MAX_BLOCK = 1024
MOST_LIMITS = 1000
_DAY = r"(19[7-9]|20\d)\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])([T ][0-9:.]+(Z|[+-]\d\d:?\d\d)?)?$"
Date: TypeAlias = Annotated[str, Meta(pattern=f"^{_DAY}")]
"""ISO 8601; a computer without a clock starts in 1970."""
DateOrNone: TypeAlias = Annotated[str, Meta(pattern=f"^$|^{_DAY}")]
Time: TypeAlias = Annotated[float, Meta(ge=LEAST_US, le=1e12)]
TimeOrZero: TypeAlias = Annotated[float, Meta(ge=0, le=1e12)]
Duration: TypeAlias = TimeOrZero
Difference: TypeAlias = Annotated[float, Meta(ge=-1e12, le=1e12)]
"""Time in microseconds from which another one is subtracted: noise may leave less than 0."""
Remainder: TypeAlias = Annotated[float, Meta(ge=-0.1, le=1e12)]
"""Difference of two sums of times, in microseconds: rounding may leave less than 0."""
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=1e9)]
Clock: TypeAlias = Annotated[float, Meta(ge=0, le=MOST_MHZ)]
"""Mean clock of the SMs, in MHz; 0 if unknown."""
ClockReading: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_MHZ)]
MemoryClock: TypeAlias = Annotated[int, Meta(ge=0, le=100_000)]
Temperature: TypeAlias = Annotated[int, Meta(ge=0, le=1000)]
Power: TypeAlias = Annotated[float, Meta(ge=0, le=100_000)]
Spread: TypeAlias = Annotated[float, Meta(ge=0, le=1e6)]
StandardError: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=101)]
"""Part of a whole, in %; a sum of shares may be above 100 by rounding."""
Occupancy: TypeAlias = Annotated[float, Meta(ge=0, le=100)]
Tolerance: TypeAlias = Annotated[float, Meta(gt=0, le=MAX_TOLERANCE_PCT)]
ToleranceOrZero: TypeAlias = Annotated[float, Meta(ge=0, le=MAX_TOLERANCE_PCT)]
RelativeTolerance: TypeAlias = Annotated[float, Meta(ge=0, le=1e6)]
AbsoluteTolerance: TypeAlias = Annotated[float, Meta(ge=0, le=1e300)]
LogRatio: TypeAlias = Annotated[float, Meta(ge=-20, le=20)]
Ratio: TypeAlias = Annotated[float, Meta(ge=0, le=1e12)]
Number: TypeAlias = Annotated[float, Meta(ge=-1e300, le=1e300)]
_Text: TypeAlias = Annotated[str, Meta(max_length=300)]
LimitTexts: TypeAlias = Annotated[tuple[_Text, ...], Meta(max_length=MOST_LIMITS)]
"""Limits such as `memory_throughput >= 60`; untrusted until `parse_limit` has read them."""
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=10**9)]
Schema: TypeAlias = Annotated[int, Meta(ge=1, le=10**6)]
Multiprocessors: TypeAlias = Annotated[int, Meta(ge=0, le=10_000)]
Registers: TypeAlias = Annotated[int, Meta(ge=0, le=255)]
SharedMemory: TypeAlias = Annotated[int, Meta(ge=0, le=2**24)]
_GridSide: TypeAlias = Annotated[int, Meta(ge=0, le=65_535)]
Grid: TypeAlias = tuple[Annotated[int, Meta(ge=0, le=2**31 - 1)], _GridSide, _GridSide]
_BlockSide: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_BLOCK)]
Block: TypeAlias = tuple[_BlockSide, _BlockSide, Annotated[int, Meta(ge=0, le=64)]]
Cluster: TypeAlias = tuple[Count, Count, Count]
