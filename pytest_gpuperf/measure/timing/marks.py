"""Marks: empty kernels that separate the launches of calls in CUPTI's records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device import kept, kernels

if TYPE_CHECKING:
    from collections.abc import Callable

SPIN = "spin_kernel"
"""torch's kernel that blocks the GPU."""


def mark() -> tuple[Callable[[], object], str]:
    """Return a function that launches a mark, and the name of its kernel."""
    try:
        empty()
    except GpuperfError:
        return lambda: kept.sleep_on_gpu(1), SPIN
    return empty, kernels.EMPTY


def empty() -> None:
    """Queue an empty kernel on the current stream.

    Raises:
        GpuperfError: The driver refuses it.
    """
    kernels.launch(kernels.EMPTY, 0, kept.current_stream().cuda_stream)
