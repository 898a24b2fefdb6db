"""Kernels compiled for GPUs that are not there: Triton kernels, and CUDA source by nvcc or NVRTC.

Measures for `gpuperf.static()` of the core, by `compile`.
Record part: `StaticKernel`, kept as a profile by `records/compiled.py`, since limits and baselines have it.
Public to other features: `ptx`.
Extra: `triton`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.instruments["static"] = "pytest_gpuperf.features.static.compile"
