"""A call of the callable under test, and the reference for its output."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    Inputs: TypeAlias = Callable[[int], tuple[tuple[Any, ...], Mapping[str, Any]]]
    """Returns positional and keyword arguments for a seed."""


class Call(msgspec.Struct, frozen=True):
    """A callable with its arguments, and the test and label that its measurements belong to."""

    nodeid: str
    label: str
    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    inputs: Inputs | None = None
    """Makes other arguments; None if the user gave the arguments themselves."""
    seed: int = 0
    """Seed for which `inputs` made these arguments."""

    def __call__(self) -> Any:
        """Call it."""
        return self.fn(*self.args, **self.kwargs)

    def __str__(self) -> str:
        """Return its name in messages."""
        name = getattr(self.fn, "__name__", type(self.fn).__name__)
        return name if self.label == "main" else f"{name} ({self.label})"


class Reference(msgspec.Struct, frozen=True):
    """The expected output of a call, and the tolerances of the comparison."""

    expected: Any
    """A callable that takes the same arguments, or tensors."""
    rtol: float | None = None
    atol: float | None = None
    equal_nan: bool = False
    mutates: bool | Collection[int | str] = ()
    """Positions or names of the arguments that the callable may write."""


class CheckedCall(Call, frozen=True, kw_only=True):
    """A call whose output is compared with a reference."""

    reference: Reference


LAYOUTS = ("contiguous", "transposed", "padded", "strided", "misaligned")
"""Ways for a tensor to lie in memory, the simplest first."""


class FuzzCall(Call, frozen=True, kw_only=True):
    """A function, its reference, and the cases for which they are compared."""

    reference: Reference
    """`expected` is a callable."""
    shapes: str
    """Dimensions of each tensor: `(m,k),(k,n)`."""
    sizes: Mapping[str, Any]
    """Allowed sizes of some names."""
    dtypes: Any
    layouts: Any
    make: Callable[[Any], Any] | None
    """Makes the arguments of a case; None for its tensors."""
    refuses: type[Exception] | tuple[type[Exception], ...]
    """Exceptions by which the function does not take a case."""
    seconds: float
