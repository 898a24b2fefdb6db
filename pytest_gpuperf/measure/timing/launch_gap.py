"""Launch gap: the time of one launch inside a CUDA graph, regardless of its kernel's work."""

from __future__ import annotations

from pytest_gpuperf.measure.timing.batch import HotBatch
from pytest_gpuperf.measure.timing.marker_kernels import mark

CALLS = 1000
BLOCKS = 11
SHORT_IN_GAPS = 30
"""A time of fewer launch gaps comes from CUPTI. On an H200 the gap is 0.5 to 0.7 µs. Events include the 0.1
to 0.35 µs between two kernels: up to 7 % of the time at ten gaps, under 2 % at thirty."""
USUAL_GAP_US = 0.6
"""Gap of an H200, for a choice before it is measured."""


def launch_gap_us() -> float:
    """Return the microseconds of an empty kernel in a graph of many."""
    mark()  # which compiles it
    batch = HotBatch(mark, CALLS)
    return sorted(batch.run().time_us for _ in range(BLOCKS))[BLOCKS // 2]
