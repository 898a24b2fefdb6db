"""What the first calls of a callable tell: memory, and what autotuners chose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace

from pytest_gpuperf.compat.triton_names import choices_noted
from pytest_gpuperf.measure.device.finish import finish
from pytest_gpuperf.measure.device.memory import peak_requested
from pytest_gpuperf.measure.trees import values_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.records import Timing

BYTES_OF_MB = 1e6
WATCHED = 2
"""The first call compiles, autotunes and keeps workspaces; the second one does what later ones do."""


class FirstCalls:
    """Watches the first calls of a callable, when it is checked and before it is timed."""

    def __init__(self) -> None:
        self._autotuned: tuple[str, ...] = ()
        self._peak_memory_mb: float | None = None

    def watched(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls `fn`, and watches two calls."""
        calls = 0
        self._peak_memory_mb = None

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            if calls == WATCHED:
                return fn(*args, **kwargs)
            picked: dict[str, None] = {}
            with (
                choices_noted(lambda kernel, config: picked.setdefault(f"{kernel}: {config}")),
                peak_requested() as peak,
            ):
                value = fn(*args, **kwargs)
                finish(value)
            calls += 1
            # What a replayed graph has chosen shows in the call before.
            self._autotuned = tuple(sorted(picked)) or self._autotuned
            # Without memory of torch nothing is known: other libraries have allocators of their own.
            is_known = any(isinstance(one, torch.Tensor) for one in values_in([args, kwargs]))
            if calls == WATCHED:
                self._peak_memory_mb = next((one / BYTES_OF_MB for one in peak if one or is_known), None)
            return value

        return call

    def added_to(self, timing: Timing) -> Timing:
        """Return a timing of the callable with what its first calls have told."""
        return replace(timing, autotuned=self._autotuned, peak_memory_mb=self._peak_memory_mb)
