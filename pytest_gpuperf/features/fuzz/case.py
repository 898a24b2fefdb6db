"""One case: sizes, type, layouts and seed, from which arguments are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from pytest_gpuperf.features.fuzz.layouts import code, make
from pytest_gpuperf.features.fuzz.shape_signature import parse_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class EndOfSearchError(KeyboardInterrupt):
    """Ends a search: Hypothesis takes every other exception for a failure."""


@dataclass(frozen=True)
class FuzzCase:
    """Shapes, type, strides and seed of the tensors of one call."""

    shapes: str
    """Names of the dimensions: `(m,k),(k,n)`."""
    sizes: Mapping[str, int]
    """Size of each name."""
    dtype: torch.dtype = torch.float32
    layouts: tuple[str, ...] = ()
    """Layout of each tensor; contiguous for those that it does not name."""
    leading: tuple[int, ...] = ()
    """Sizes of the dimensions that `...` stands for."""
    seed: int = 0
    """Seed of the random numbers."""
    device: str = "cuda"

    @cached_property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The tensors, made at the first use."""
        return tuple(make(shape, self.dtype, layout, self.device) for shape, layout in self._each())

    @property
    def elements(self) -> int:
        """Number of elements of all tensors."""
        return sum(math.prod(shape) for shape, _ in self._each())

    def _each(self) -> list[tuple[tuple[int, ...], str]]:
        shapes = parse_signature(self.shapes).shapes(self.sizes, self.leading)
        layouts = [*self.layouts, *["contiguous"] * (len(shapes) - len(self.layouts))]
        return list(zip(shapes, layouts, strict=True))

    def __str__(self) -> str:
        """Return `m=1, n=1025, float32, transposed`."""
        sizes = [f"{name}={size}" for name, size in self.sizes.items()]
        leading = [f"...={'x'.join(map(str, self.leading))}"] if self.leading else []
        layouts = [" and ".join(self.layouts)] if any(one != "contiguous" for one in self.layouts) else []
        return ", ".join([*leading, *sizes, str(self.dtype).removeprefix("torch."), *layouts])

    def __repr__(self) -> str:
        """Return Python that makes this case."""
        leading = f", leading={self.leading}" if self.leading else ""
        return (
            f"FuzzCase({self.shapes!r}, {dict(self.sizes)!r}, {self.dtype}, {self.layouts!r}{leading}, "
            f"seed={self.seed}, device={self.device!r})"
        )


class CaseArguments(NamedTuple):
    """Arguments of a case."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    stars: str
    """Stars before the value that `inputs` returned, in a call with it."""


def arguments_of(case: FuzzCase, inputs: Callable[[FuzzCase], Any] | None) -> CaseArguments:
    """Return the arguments of a case.

    Args:
        case: The case.
        inputs: Makes the arguments: a tuple or list of them, a dict of keyword arguments, or one.
    """
    torch.manual_seed(case.seed)
    made = case.tensors if inputs is None else inputs(case)
    if isinstance(made, dict):
        return CaseArguments((), made, "**")
    if isinstance(made, (tuple, list)):
        return CaseArguments(tuple(made), {}, "*")
    return CaseArguments((made,), {}, "")


def line_of(
    case: FuzzCase, fn: Callable[..., Any], inputs: Callable[[FuzzCase], Any] | None, stars: str = "*"
) -> str:
    """Return a line of Python that makes the arguments of a case and calls the function.

    Args:
        case: The case.
        fn: The function.
        inputs: Makes the arguments; None for the tensors of the case.
        stars: Stars before the value of `inputs`.
    """
    seeded = f"torch.manual_seed({case.seed}); {_name(fn, 'fn')}"
    if inputs is not None:
        return f"{seeded}({stars}{_name(inputs, 'inputs')}({case!r}))"
    made = (code(shape, case.dtype, layout, case.device) for shape, layout in case._each())
    return f"{seeded}({', '.join(made)})"


def _name(value: object, default: str) -> str:
    name = getattr(value, "__name__", "")
    return name if isinstance(name, str) and name.isidentifier() else default
