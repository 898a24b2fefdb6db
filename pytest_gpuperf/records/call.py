"""A call of the callable under test, and the reference for its output."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    Inputs: TypeAlias = Callable[[int], tuple[tuple[Any, ...], Mapping[str, Any]]]
    """Returns positional and keyword arguments for a seed."""


class Reference(msgspec.Struct, frozen=True):
    """The expected output of a call, and the tolerances of the comparison."""

    expected: Any
    """A callable that takes the same arguments, or tensors."""
    rtol: float | None = None
    atol: float | None = None
    equal_nan: bool = False
    mutates: bool | Collection[int | str] = ()
    """Positions or names of the arguments that the callable may write."""


class Call(msgspec.Struct, frozen=True):
    """A callable with its arguments, and the test and label that its measurements belong to."""

    nodeid: str
    label: str
    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    inputs: Callable[[int], Any] | None = None
    """Makes the arguments for a seed; None if the test gave the arguments themselves."""
    seed: int = 0
    """Seed for which `inputs` made these arguments."""
    reference: Reference | None = None
    """The output is compared with it."""

    def __call__(self) -> Any:
        """Call it."""
        return self.fn(*self.args, **self.kwargs)

    @property
    def factory(self) -> Inputs | None:
        """Makes positional and keyword arguments for a seed; None if the test gave the arguments."""
        return partial(made_arguments, self.inputs) if self.inputs is not None else None

    def with_arguments(self) -> Call:
        """Return the call with the arguments that `inputs` makes for its seed."""
        if self.factory is None:
            return self
        args, kwargs = self.factory(self.seed)
        return replace(self, args=args, kwargs=kwargs)

    def without_arguments(self) -> Call:
        """Return the call without arguments that `inputs` can make again."""
        return self if self.inputs is None else replace(self, args=(), kwargs={})

    def is_like(self, other: Call) -> bool:
        """Return True for the same callable with the same arguments, or the same way to make them."""
        one, two = self.without_arguments(), other.without_arguments()
        return (
            one.fn is two.fn
            and one.inputs is two.inputs
            and len(one.args) == len(two.args)
            and all(value is also for value, also in zip(one.args, two.args, strict=True))
            and one.kwargs.keys() == two.kwargs.keys()
            and all(value is two.kwargs[key] for key, value in one.kwargs.items())
        )

    def after(self, checked: Call | None, mutates: bool | Collection[int | str] | None) -> Call:
        """Return the call with the reference of its check, if it is like the one that was checked.

        Args:
            checked: The call that was checked under the same label; None if none was.
            mutates: Arguments that the callable may write to; None for those of the check.
        """
        reference = checked.reference if checked is not None and self.is_like(checked) else None
        if reference is not None and self.inputs is not None and not callable(reference.expected):
            # Its tensors belong to the arguments of the check.
            reference = replace(reference, expected=None)
        if mutates is not None:
            reference = replace(reference or Reference(None), mutates=mutates)
        return replace(self, reference=reference)

    def __str__(self) -> str:
        """Return its name in messages."""
        name = getattr(self.fn, "__name__", type(self.fn).__name__)
        return with_label(name, self.label)


def with_label(name: str, label: str) -> str:
    """Return a name, of a test for example, with a label behind it unless it is `main` or empty."""
    return name if label in ("", "main") else f"{name} ({label})"


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


def made_arguments(inputs: Callable[[int], Any], seed: int) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Call a factory, and return positional and keyword arguments.

    Raises:
        GpuperfError: It returned something else than arguments.
    """
    made = inputs(seed)
    if isinstance(made, Mapping):
        return (), made
    if isinstance(made, (tuple, list)):
        if len(made) == 2 and isinstance(made[0], (tuple, list)) and isinstance(made[1], Mapping):
            return tuple(made[0]), made[1]
        return tuple(made), {}
    raise GpuperfError(
        f"inputs= returned a {type(made).__name__}",
        expected="a tuple of positional arguments, a dict of keyword arguments, or a tuple of both",
        next_step="write `return (x,)` for one argument",
    )
