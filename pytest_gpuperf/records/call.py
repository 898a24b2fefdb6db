"""A call of the callable under test, and the reference for its output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    Inputs: TypeAlias = Callable[[int], tuple[tuple[Any, ...], Mapping[str, Any]]]
    """Returns positional and keyword arguments for a seed."""


@dataclass(frozen=True)
class Call:
    """A callable with its arguments, and the test and label that its measurements belong to."""

    nodeid: str
    label: str
    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
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


@dataclass(frozen=True)
class Reference:
    """The expected output of a call, and the tolerances of the comparison."""

    expected: Any
    """A callable that takes the same arguments, or tensors."""
    rtol: float | None = None
    atol: float | None = None
    equal_nan: bool = False
    mutates: bool | Collection[int | str] = ()
    """Positions or names of the arguments that the callable may write."""


@dataclass(frozen=True)
class CheckedCall(Call):
    """A call whose output is compared with a reference."""

    reference: Reference = field(kw_only=True)


@dataclass(frozen=True)
class RankCall(Call):
    """A call on several GPUs at once, by one process for each: a rank."""

    gpus: int = field(kw_only=True)
    make: Callable[[int, int, int], Any] = field(kw_only=True)
    """Makes the arguments of a rank, from its number, the number of ranks, and a seed."""
    reference: Reference | None = field(kw_only=True, default=None)
    """`expected` takes the same as `make`."""


LAYOUTS = ("contiguous", "transposed", "padded", "strided", "misaligned")
"""Ways for a tensor to lie in memory, the simplest first."""


@dataclass(frozen=True)
class FuzzCall(Call):
    """A function, its reference, and the cases for which they are compared."""

    reference: Reference = field(kw_only=True)
    """`expected` is a callable."""
    shapes: str = field(kw_only=True)
    """Dimensions of each tensor: `(m,k),(k,n)`."""
    sizes: Mapping[str, Any] = field(kw_only=True)
    """Allowed sizes of some names."""
    dtypes: Any = field(kw_only=True)
    layouts: Any = field(kw_only=True)
    make: Callable[[Any], Any] | None = field(kw_only=True)
    """Makes the arguments of a case; None for its tensors."""
    refuses: type[Exception] | tuple[type[Exception], ...] = field(kw_only=True)
    """Exceptions by which the function does not take a case."""
    seconds: float = field(kw_only=True)
