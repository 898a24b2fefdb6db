"""Kernels that Triton has compiled in this process, with their binaries."""

from __future__ import annotations

import gc
from typing import Any

from pytest_gpuperf.compat.triton_names import compiled_kernel_type


def compiled_kernels() -> dict[str, list[Any]]:
    """Return Triton's kernels of this process by name: each configuration and type makes a variant."""
    found: dict[str, list[Any]] = {}
    kind = compiled_kernel_type()
    if kind is None:
        return found
    # Triton's place for them differs by version; Inductor keeps its own.
    for thing in gc.get_referrers(kind):
        if type(thing) is kind:
            found.setdefault(thing.metadata.name, []).append(thing)
    return found
