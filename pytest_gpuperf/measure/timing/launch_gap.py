"""What one launch takes inside a CUDA graph, however little its kernel does."""

from __future__ import annotations

from pytest_gpuperf.measure.timing.batch import HotBatch

CALLS = 1000
BLOCKS = 11
SHORT_IN_GAPS = 30
"""A time of fewer launch gaps is CUPTI's. On an H200 the gap is 0.5 to 0.7 µs, and what lies between two
kernels, which events count in, is 0.1 to 0.35 µs: up to 7 % of the time at ten gaps, under 2 % at thirty."""
USUAL_GAP_US = 0.6
"""An H200's, where none can be measured."""


def launch_gap_us() -> float | None:
    """Microseconds that an empty kernel takes in a graph of many; None without Triton."""
    try:
        from pytest_gpuperf.measure.timing.kernels import gpuperf_empty

        gpuperf_empty[(1,)](num_warps=1)
    except Exception:  # Triton is missing or cannot compile for this GPU
        return None
    batch = HotBatch(lambda: gpuperf_empty[(1,)](num_warps=1), CALLS)
    return sorted(batch.run().time_us for _ in range(BLOCKS))[BLOCKS // 2]
