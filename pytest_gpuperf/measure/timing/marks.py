"""Marks: empty kernels that separate the launches of calls in CUPTI's records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.measure.device import kept

if TYPE_CHECKING:
    from collections.abc import Callable

EMPTY = "gpuperf_empty"
SPIN = "spin_kernel"
"""torch's kernel that blocks the GPU."""


def mark() -> tuple[Callable[[], object], str]:
    """Return a function that launches a mark, and the name of its kernel."""
    try:
        from pytest_gpuperf.measure.timing.kernels import gpuperf_empty

        gpuperf_empty[(1,)](num_warps=1)
    except Exception:  # Triton is missing or cannot compile for this GPU
        return lambda: kept.sleep_on_gpu(1), SPIN
    return lambda: gpuperf_empty[(1,)](num_warps=1), EMPTY
