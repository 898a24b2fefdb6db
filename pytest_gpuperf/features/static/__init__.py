"""Kernels compiled for GPUs that are not there: Triton kernels, and CUDA source by nvcc or NVRTC.

Measures for `gpuperf.static()` of the core, by `compilation`.
Record part: `StaticKernel`, kept as a profile by `records/static_profiles.py` for limits and baselines.
Public to other features: `ptx_reader`.
Extra: `triton`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gpuperf.registry import Registry


def register(registry: Registry) -> None:
    """Add the parts named above."""
    registry.instruments["static"] = "pytest_gpuperf.features.static.compilation"
