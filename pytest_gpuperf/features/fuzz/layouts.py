"""Strides and addresses of a tensor of one shape, and the Python that makes it."""

from __future__ import annotations

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
    view: Callable[[torch.Tensor, Shape], torch.Tensor]
    """Take the tensor out of the memory."""
    code: Callable[[Shape], str]
    """Python of `view`."""


LAYOUTS = {
    "contiguous": Layout(0, lambda shape: shape, lambda memory, _: memory, lambda _: ""),
    "transposed": Layout(
        2, lambda shape: (*shape[:-2], shape[-1], shape[-2]), lambda memory, _: memory.mT, lambda _: ".mT"
    ),
    "padded": Layout(
        1,
        lambda shape: (*shape[:-1], shape[-1] + PADDING),
        lambda memory, shape: memory[..., : shape[-1]],
        lambda shape: f"[..., :{shape[-1]}]",
    ),
    "strided": Layout(
        1,
        lambda shape: (*shape[:-1], 2 * shape[-1]),
        lambda memory, _: memory[..., ::2],
        lambda _: "[..., ::2]",
    ),
    "misaligned": Layout(
        0,
        lambda shape: (_elements(shape) + 1,),
        lambda memory, shape: memory[1:].view(shape),
        lambda shape: f"[1:].view({shape})",
    ),
}
"""Layouts by name, the simplest first."""


def _elements(shape: Shape) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def make(shape: Shape, dtype: torch.dtype, layout: str, device: str) -> torch.Tensor:
    """Make a tensor of small random numbers."""
    chosen = LAYOUTS[layout]
    return chosen.view(_values(chosen.base(shape), dtype, device), shape)


def code(shape: Shape, dtype: torch.dtype, layout: str, device: str) -> str:
    """Return the Python that makes the same tensor as `make`."""
    chosen = LAYOUTS[layout]
    base, on = chosen.base(shape), f", device={device!r}"
    whole = _integers(dtype)
    if whole is not None:
        made = f"torch.randint({whole[0]}, {whole[1]}, {base}, dtype={dtype}{on})"
    elif _random(dtype) is dtype:
        of_type = "" if dtype == torch.float32 else f", dtype={dtype}"
        made = f"torch.randn({base}{of_type}{on})"
    else:
        made = f"torch.randn({base}{on}).to({dtype})"
    return made + chosen.code(shape)


def _values(shape: Shape, dtype: torch.dtype, device: str) -> torch.Tensor:
    whole = _integers(dtype)
    if whole is not None:
        return torch.randint(*whole, shape, dtype=dtype, device=device)
    return torch.randn(shape, dtype=_random(dtype), device=device).to(dtype)


def _integers(dtype: torch.dtype) -> tuple[int, int] | None:
    """Return the range of the random integers of a type; None for floating types."""
    if dtype.is_floating_point or dtype.is_complex:
        return None
    return (0, 2) if dtype == torch.bool else (-8 if dtype.is_signed else 0, 8)


def _random(dtype: torch.dtype) -> torch.dtype:
    """Return the type that random numbers are made in: torch makes none of 8 bits."""
    return torch.float32 if dtype.itemsize == 1 else dtype
