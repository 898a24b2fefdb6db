"""The list of the zoo's callables."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.zoo.typed_operators import Honest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeAlias

    Maker: TypeAlias = Callable[[torch.device], Honest]

MODULES = (
    "operators",
    "modules",
    "steps",
    "layouts",
    "numbers",
    "programs",
    "compiled",
    "vendors",
    "libraries",
)
"""Modules of this package with callables, in their order: what may break a process comes last."""
NEAR = 2e-2
"""Tolerance of float32 results next to float64 ones: cuDNN's convolutions use TF32."""


@dataclass(frozen=True)
class Animal:
    """A callable of the zoo, not made yet."""

    name: str
    kind: str
    make: Maker
    """Makes it on a device. Raises `ImportError` if a package is missing."""
    cuda: bool
    """True if it needs a GPU."""
    gpus: int
    """GPUs that it needs."""


_ANIMALS: dict[str, Animal] = {}


def add(kind: str, name: str, make: Maker, *, cuda: bool = False, gpus: int = 1) -> None:
    """Add a callable to the zoo.

    Raises:
        ValueError: The name is taken.
    """
    if name in _ANIMALS:
        raise ValueError(f"two callables are named {name}")
    _ANIMALS[name] = Animal(name, kind, make, cuda or gpus > 1, gpus)


def honest(kind: str, *, cuda: bool = False, gpus: int = 1) -> Callable[[Maker], Maker]:
    """Add a function that makes a callable, by its own name."""

    def keep(make: Maker) -> Maker:
        add(kind, make.__name__, make, cuda=cuda, gpus=gpus)
        return make

    return keep


def zoo() -> Mapping[str, Animal]:
    """Return all callables by name."""
    for name in MODULES:
        importlib.import_module(f"benchmarks.zoo.{name}")
    return _ANIMALS


def close(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    expected: Callable[..., Any],
    *,
    mutates: tuple[int, ...] = (),
    tolerance: float = NEAR,
) -> Honest:
    """Return a callable whose results are near those of the reference, relatively or absolutely."""
    return Honest(fn, args, expected, mutates, rtol=tolerance, atol=tolerance)


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested tuples, lists, dicts and dataclasses."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from tensors_in(one)
    elif is_dataclass(value):
        yield from tensors_in([getattr(value, field.name) for field in fields(value)])


def widened(value: Any) -> Any:
    """Return a tensor of floating-point numbers in float64, and all else as it is."""
    is_floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.detach().double() if is_floating else value
