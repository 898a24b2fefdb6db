"""Kernels that Triton launches, with their binaries, by Triton's launch hook."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.compat.triton_names import compiled_kernel_type, launches_noted

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def launched_functions() -> Iterator[set[object]]:
    """Collect the driver's handles of the kernels that Triton launches inside the `with`."""
    handles: set[object] = set()
    with launches_noted(handles.add):
        yield handles


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
