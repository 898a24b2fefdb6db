"""What the first calls of a callable tell: compilers, memory, and what autotuners chose."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace

from pytest_gpuperf.compat import nvrtc_names, torch_names, triton_names
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.device.memory import peak_requested
from pytest_gpuperf.measure.device.synchronisation import finish
from pytest_gpuperf.measure.trees import values_in
from pytest_gpuperf.records.timing import CompilerWork, FirstCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_gpuperf.records import Timing

BYTES_OF_MB = 1e6
WATCHED = 2
"""The first call compiles, autotunes and keeps workspaces; the second one does what later ones do."""


class FirstCalls:
    """Watches the first calls of a callable, when it is checked and before it is timed."""

    def __init__(self) -> None:
        self._seconds: float | None = None
        self._compilers: dict[str, CompilerWork] = {}
        self._autotuned: tuple[str, ...] = ()
        self._peak_memory_mb: float | None = None

    def watched(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls `fn`, and watches two calls."""
        seconds: list[float] = []
        self._peak_memory_mb = None

        def call(*args: Any, **kwargs: Any) -> Any:
            if len(seconds) == WATCHED:
                return fn(*args, **kwargs)
            picked: dict[str, None] = {}
            with (
                triton_names.choices_noted(lambda kernel, config: picked.setdefault(f"{kernel}: {config}")),
                nullcontext() if seconds else self._compilations_noted(),
                peak_requested() as peak,
            ):
                begin = originals.now()
                value = fn(*args, **kwargs)
                finish(value)
                seconds.append(originals.now() - begin)
            # What a replayed graph has chosen shows in the call before.
            self._autotuned = tuple(sorted(picked)) or self._autotuned
            # Without memory of torch nothing is known: other libraries have allocators of their own.
            is_known = any(isinstance(one, torch.Tensor) for one in values_in([args, kwargs]))
            if len(seconds) == WATCHED:
                # Other arguments than those of the check may be compiled for again.
                self._seconds = (self._seconds or 0.0) + max(0.0, seconds[0] - seconds[1])
                self._peak_memory_mb = next((one / BYTES_OF_MB for one in peak if one or is_known), None)
            return value

        return call

    @contextmanager
    def _compilations_noted(self) -> Iterator[None]:
        with (
            triton_names.compilations_noted(partial(self._add, "triton")),
            torch_names.compilations_noted(partial(self._add, "inductor")),
            nvrtc_names.compilations_noted(partial(self._add, "nvrtc")),
        ):
            yield

    def _add(self, compiler: str, seconds: float, compiled: int, cached: int) -> None:
        known = self._compilers.get(compiler, CompilerWork())
        self._compilers[compiler] = CompilerWork(
            seconds=round(known.seconds + seconds, 3),
            compiled=known.compiled + compiled,
            cached=known.cached + cached,
        )

    def added_to(self, timing: Timing) -> Timing:
        """Return a timing of the callable with what its first calls have told."""
        first_call = None
        if self._seconds is not None:
            first_call = FirstCall(seconds=round(self._seconds, 3), compilers=self._compilers)
        return replace(
            timing,
            first_call=first_call,
            autotuned=self._autotuned,
            peak_memory_mb=self._peak_memory_mb,
        )
