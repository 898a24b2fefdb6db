"""A call of the callable under test, and the reference for its output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


@dataclass(frozen=True)
class Call:
    """A callable with its arguments, and the test and label that its measurements belong to."""

    nodeid: str
    label: str
    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

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
