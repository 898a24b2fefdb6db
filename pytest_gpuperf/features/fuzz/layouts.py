"""Strides and addresses of a tensor of one shape, and the Python that makes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    Shape = tuple[int, ...]

PADDING = 1000
"""Elements between rows: not a multiple of any tile, so that rows are misaligned too."""


@dataclass(frozen=True)
class Layout:
    """A way to lie in memory."""

    least_dimensions: int
    base: Callable[[Shape], Shape]
    """Shape of the memory."""
    view: Callable[[Shape], str]
    """Python that takes the tensor out of the memory."""


LAYOUTS = {
    "contiguous": Layout(0, lambda shape: shape, lambda _: ""),
    "transposed": Layout(2, lambda shape: (*shape[:-2], shape[-1], shape[-2]), lambda _: ".mT"),
    "padded": Layout(
        1, lambda shape: (*shape[:-1], shape[-1] + PADDING), lambda shape: f"[..., :{shape[-1]}]"
    ),
    "strided": Layout(1, lambda shape: (*shape[:-1], 2 * shape[-1]), lambda _: "[..., ::2]"),
    "misaligned": Layout(0, lambda shape: (math.prod(shape) + 1,), lambda shape: f"[1:].view({shape})"),
}
"""Layouts by name, the simplest first."""


def layouts_for(dimensions: int, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Return the layouts that a tensor can have, the simplest first."""
    possible = tuple(name for name in wanted if LAYOUTS[name].least_dimensions <= dimensions)
    return possible or ("contiguous",)


def make(shape: Shape, dtype: torch.dtype, layout: str, device: str) -> torch.Tensor:
    """Make a tensor of small random numbers, by the Python that a failure shows."""
    tensor: torch.Tensor = eval(code(shape, dtype, layout, device), {"torch": torch})  # noqa: S307
    return tensor


def code(shape: Shape, dtype: torch.dtype, layout: str, device: str) -> str:
    """Return Python that makes a tensor."""
    base, on = LAYOUTS[layout].base(shape), f"device={device!r}"
    if not (dtype.is_floating_point or dtype.is_complex):
        low, high = (0, 2) if dtype == torch.bool else (-8 if dtype.is_signed else 0, 8)
        made = f"torch.randint({low}, {high}, {base}, dtype={dtype}, {on})"
    elif dtype.itemsize == 1:  # torch makes no random numbers of 8 bits
        made = f"torch.randn({base}, {on}).to({dtype})"
    else:
        of_type = "" if dtype == torch.float32 else f"dtype={dtype}, "
        made = f"torch.randn({base}, {of_type}{on})"
    return made + LAYOUTS[layout].view(shape)
