"""A call of the callable under test, its fingerprint, its reference, and the launches of it to profile."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError, show_repr
from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.number_ranges import Count
from pytest_gpuperf.records.timing import TimingMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    Inputs: TypeAlias = Callable[[int], tuple[tuple[Any, ...], Mapping[str, Any]]]
    """Returns positional and keyword arguments for a seed."""


Launch = TypeVar("Launch")

Launches: TypeAlias = Literal["all", "first", "last"] | int
"""An index counts from 0, or from the end if it is negative."""
_Index = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31)]
MOST_ARGUMENTS = 64
"""Arguments in a fingerprint."""
_Texts = Annotated[list[str], msgspec.Meta(min_length=1)]
DEEPEST = 4
"""Levels of lists, tuples and mappings that are looked into."""


class Reference(msgspec.Struct, frozen=True):
    """The expected output of a call, and the tolerances of the comparison."""

    expected: Any
    """A callable that takes the same arguments, or tensors."""
    rtol: float | None = None
    atol: float | None = None
    equal_nan: bool = False
    mutates: bool | Collection[int | str] = ()
    """Positions or names of the arguments that the callable may write."""


class Fingerprint(Record, frozen=True, kw_only=True):
    """What two calls have in common if their times may be compared."""

    arguments: tuple[str, ...] = ()
    """Type, shape and strides of each tensor, each number, and the types of other arguments, in order."""
    mode: TimingMode
    bytes: Count = 0
    """Bytes that a call has to move, given by the caller; 0 if not given."""
    flops: Count = 0
    """Floating-point operations of a call, given by the caller; 0 if not given."""

    def difference(self, other: Fingerprint) -> str:
        """Return the first value that differs, as `this instead of that`; empty if all are the same."""
        for name in ("mode", "bytes", "flops"):
            one, two = getattr(self, name), getattr(other, name)
            if one != two:
                return f"{name} {one} instead of {two}"
        if self.arguments != other.arguments:
            return f"arguments {', '.join(self.arguments)} instead of {', '.join(other.arguments)}"
        return ""


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

    def fingerprint(self, mode: TimingMode, bytes: int, flops: int) -> Fingerprint:
        """Describe what another call needs in common with this one to be compared with it.

        Args:
            mode: Mode in which it is timed.
            bytes: Bytes that it has to move.
            flops: Its floating-point operations.
        """
        found = list(_described([*self.args, dict(self.kwargs)], DEEPEST))
        more = len(found) - MOST_ARGUMENTS
        arguments = (*found[:MOST_ARGUMENTS], *([f"and {more} more"] if more > 0 else []))
        return Fingerprint(arguments=arguments, mode=mode, bytes=bytes, flops=flops)

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


@dataclass(frozen=True)
class Selection:
    """Launches that one call of `profile()` asks for."""

    regex: str | None = None
    """Found in a kernel's function name or in the demangled one; None for all kernels."""
    launches: Launches = "all"
    """Launches of those kernels."""

    @property
    def recorded(self) -> str:
        """Launches in the form of a record: empty for all."""
        return "" if self.launches == "all" else str(self.launches)

    @classmethod
    def of_record(cls, regex: str, launches: str) -> Selection:
        """Return the selection that a record tells of; see `recorded`."""
        if launches in ("", "first", "last"):
            return cls(regex or None, cast("Launches", launches or "all"))
        return cls(regex or None, int(launches))

    def pick(self, launches: Sequence[Launch], call: Call) -> Sequence[Launch]:
        """Return the requested launches of those that the regex finds.

        Raises:
            GpuperfError: There are fewer.
        """
        if self.launches == "all":
            return launches
        index = {"first": 0, "last": -1}.get(str(self.launches), self.launches)
        assert isinstance(index, int)
        if not -len(launches) <= index < len(launches):
            count = len(launches)
            launched = "1 launch" if count == 1 else f"{count} launches"
            raise GpuperfError(
                f"launches={index} of {call}, of which {launched} matched",
                expected=f"an index from {-count} to {count - 1}",
            )
        return [launches[index]]


def checked(name: str, value: Any, kind: Any, expected: str, where: str = "") -> Any:
    """Return an argument as a user wrote it, as a type of msgspec; numbers may be numpy's.

    Args:
        name: The keyword.
        value: The value.
        kind: The type.
        expected: The type in words.
        where: Place of the argument, for the message.

    Raises:
        GpuperfError: It has another type, or is out of its range.
    """
    try:
        is_of_numpy = type(value).__module__ == "numpy" and value.shape == ()
        return msgspec.convert(value.item() if is_of_numpy else value, kind)
    except (msgspec.ValidationError, AttributeError, TypeError, UnicodeError):
        raise GpuperfError(f"{name}={show_repr(value)} {where}".rstrip(), expected=expected) from None


def check_launches(value: object, where: str) -> Launches:
    """Check `launches=` as a user wrote it.

    Args:
        value: The value.
        where: Its place, for the message.

    Raises:
        GpuperfError: It is neither a word that is known nor an index.
    """
    expected = "'all', 'first', 'last', or the index of a launch: from 0 on, or from -1 back"
    launches = checked("launches", value, Literal["all", "first", "last"] | _Index, expected, where)
    return cast("Launches", {0: "first", -1: "last"}.get(launches, launches))


def check_kernels(value: object, where: str) -> str | None:
    """Check `kernels=` as a user wrote it.

    Args:
        value: A regex, a list of them, or None.
        where: Its place, for the message.

    Returns:
        One regex; None for all kernels.

    Raises:
        GpuperfError: It is something else, or a broken regex.
    """
    if value is None:
        return None
    parts = (
        [value]
        if isinstance(value, str)
        else checked("kernels", value, _Texts, "a regex or a list of them", where)
    )
    for part in parts:
        check_regex(part, where)
    return str(parts[0]) if len(parts) == 1 else "|".join(f"(?:{part})" for part in parts)


def wait_for_launches(value: object) -> None:
    """Wait for the result of a call if JAX may still have to launch its work."""
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "block_until_ready"):
        jax.block_until_ready(value)


def check_regex(regex: str, where: str) -> None:
    """Refuse a broken regex before anything runs."""
    try:
        re.compile(regex)
        broken = "" if regex.isprintable() else "it has characters that cannot be printed"
    except (re.error, OverflowError, RecursionError) as error:
        broken = str(error)
    if broken:
        raise GpuperfError(
            f"the kernel regex {show_repr(regex)} {where} is broken: {broken}",
            expected="a Python regex",
            next_step="escape characters such as ( [ * + with a backslash",
        )


def _described(value: Any, depth: int) -> Iterator[str]:
    if value is None or isinstance(value, (bool, int, float, complex)):
        yield repr(value)
    elif isinstance(value, (list, tuple, Mapping)) and depth:
        items = value.values() if isinstance(value, Mapping) else value
        for one in items:
            yield from _described(one, depth - 1)
    else:
        # Its name may hold a path or an address.
        yield _tensor(value) or type(value).__name__


def _tensor(value: Any) -> str:
    """Describe a tensor; empty for anything else, and for a nested tensor, which has no shape."""
    # Not by its class: torch may be a stand-in, and other libraries have tensors too.
    try:
        found = f"{str(value.dtype).removeprefix('torch.')}{_sizes(value.shape)}"
    except (AttributeError, RuntimeError, TypeError):
        return ""
    # One of NumPy and a sparse one have no strides of this kind.
    with suppress(AttributeError, RuntimeError):
        if not value.is_contiguous():
            found += f" by {_sizes(value.stride())}"
    return found


def _sizes(values: Iterable[Any]) -> list[int | None]:
    """Return sizes or strides; torch numbers the jagged ones of a process, so these have no value."""
    return [value if isinstance(value, int) else None for value in values]
