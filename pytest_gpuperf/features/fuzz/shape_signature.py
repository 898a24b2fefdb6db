"""Shapes of the tensors of a call, in the notation of NumPy's generalised functions: `(m,k),(k,n)`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.errors import GpuperfError, show_repr

if TYPE_CHECKING:
    from collections.abc import Collection

    Allowed = range | tuple[int, ...]

_OPERAND = re.compile(r"\(([^()]*)\)")
_DIMENSION = re.compile(r"\.\.\.|[A-Za-z_]\w*|\d+")
LEADING = "..."
"""Any number of dimensions, the same in each tensor."""
MOST_LEADING = 3
"""Maximum number of dimensions for `...`."""
MOST_ELEMENTS = 1 << 22
"""Largest product of all sizes of a random case: a call stays short."""
ANY_SIZE = range(MOST_ELEMENTS + 1)
MOST_STEPS = 1 << 16
"""Maximum number of sizes in a range with a step."""


@dataclass(frozen=True)
class Signature:
    """Dimensions of each tensor, by name or as a fixed size, and the sizes that a name may have."""

    operands: tuple[tuple[str, ...], ...]
    allowed: Mapping[str, Allowed]
    """Sizes by name, in the order in which the names occur."""

    @property
    def has_leading(self) -> bool:
        """True if a tensor may have any number of leading dimensions."""
        return any(LEADING in operand for operand in self.operands)

    def shapes(self, sizes: Mapping[str, int], leading: tuple[int, ...] = ()) -> tuple[tuple[int, ...], ...]:
        """Return the shape of each tensor for the sizes of the names."""
        return tuple(
            tuple(
                size
                for name in operand
                for size in (leading if name == LEADING else (sizes[name] if name in sizes else int(name),))
            )
            for operand in self.operands
        )


def parse_signature(text: object, sizes: Mapping[str, object] | None = None) -> Signature:
    """Read `(m,k),(k,n)`, with the sizes that its names may have.

    Args:
        text: Tensors in brackets; a dimension is a name, a number, or `...` at the start.
        sizes: For a name a range, some sizes, or one.

    Raises:
        GpuperfError: The text, a name or a size is not one of those.
    """
    if not isinstance(sizes, Mapping) and sizes is not None:
        raise GpuperfError(f"sizes={show_repr(sizes)}", expected="sizes by name: {'k': [64, 128]}")
    operands = _operands(text)
    names = [name for operand in operands for name in operand if name != LEADING and not name.isdigit()]
    known = dict.fromkeys(names)
    given = dict(sizes or {})
    for name in given:
        if name not in known:
            raise GpuperfError(
                f"sizes has {show_repr(name)}, which is not in shapes={show_repr(text)}",
                expected=f"some of {', '.join(known) or 'no names'}",
            )
    return Signature(operands, {name: _allowed(name, given.get(name, ANY_SIZE)) for name in known})


def _operands(text: object) -> tuple[tuple[str, ...], ...]:
    wrong = GpuperfError(
        f"shapes={show_repr(text)}",
        expected="tensors in brackets, such as '(m,n)', '(m,k),(k,n)', '(...)' or '(b,h,s,64)'",
    )
    if not isinstance(text, str):
        raise wrong
    compact = "".join(text.split())
    found = _OPERAND.findall(compact)
    if not found or ",".join(f"({one})" for one in found) != compact:
        raise wrong
    operands = tuple(tuple(one.split(",")) if one else () for one in found)
    for operand in operands:
        if not all(_DIMENSION.fullmatch(name) for name in operand) or LEADING in operand[1:]:
            raise wrong
    return operands


def _allowed(name: str, value: object) -> Allowed:
    if isinstance(value, range) and len(value) > 0 and value.start >= 0 and value.step > 0:
        if value.step == 1:
            return value
        if len(value) <= MOST_STEPS:
            return tuple(value)
    some: Collection[Any] = value if isinstance(value, (list, tuple, set, frozenset)) else (value,)
    if some and all(type(one) is int and one >= 0 for one in some):
        return tuple(sorted(set(some)))
    raise GpuperfError(
        f"sizes[{name!r}]={show_repr(value)}",
        expected="a size, a list of sizes, or a range such as range(1, 4097)",
    )


def nearest(allowed: Allowed, size: int) -> int:
    """Return the allowed size next to another one."""
    if isinstance(allowed, range):
        return min(max(size, allowed.start), allowed.stop - 1)
    return min(allowed, key=lambda one: (abs(one - size), one))
