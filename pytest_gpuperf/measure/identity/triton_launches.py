"""Kernels that Triton launches, with their binaries, by Triton's launch hook."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def launched_functions() -> Iterator[set[object]]:
    """Collect the driver's handles of the kernels that Triton launches inside the `with`."""
    handles: set[object] = set()
    owner = _owner_of_hooks()
    if owner is None:
        yield handles
        return

    def note(metadata: Any) -> None:
        # `metadata.get()` would compute what the kernel's author adds to it.
        handles.add(metadata.data["function"])

    # Another profiler's hook sees the other launches.
    with patch.object(owner, "launch_enter_hook", note):
        yield handles


def _owner_of_hooks() -> Any:
    """Return the object with Triton's launch hook; None without Triton."""
    knobs = sys.modules.get("triton.knobs")
    if knobs is not None:
        return knobs.runtime
    # Before Triton 3.4.
    return getattr(sys.modules.get("triton.compiler.compiler"), "CompiledKernel", None)


def compiled_kernels() -> dict[str, list[Any]]:
    """Return Triton's kernels of this process by name: each configuration and type makes a variant."""
    found: dict[str, list[Any]] = {}
    kind = getattr(sys.modules.get("triton.compiler.compiler"), "CompiledKernel", None)
    if kind is None:
        return found
    # Triton's place for them differs by version; Inductor keeps its own.
    for thing in gc.get_referrers(kind):
        if type(thing) is kind:
            found.setdefault(thing.metadata.name, []).append(thing)
    return found
