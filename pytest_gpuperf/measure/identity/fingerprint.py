"""What a call needs in common with another one to be compared with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.records import Fingerprint

if TYPE_CHECKING:
    from pytest_gpuperf.records import TimingMode
    from pytest_gpuperf.records.call import Call

MOST_ARGUMENTS = 64
DEEPEST = 4
"""Levels of lists, tuples and mappings that are looked into."""


def fingerprint(call: Call, mode: TimingMode, bytes: int, flops: int) -> Fingerprint:
    """Describe a call by its arguments, mode and work.

    Args:
        call: The call.
        mode: Mode in which it is timed.
        bytes: Bytes that it has to move.
        flops: Its floating-point operations.
    """
    found = list(_described([*call.args, dict(call.kwargs)], DEEPEST))
    more = len(found) - MOST_ARGUMENTS
    arguments = (*found[:MOST_ARGUMENTS], *([f"and {more} more"] if more > 0 else []))
    return Fingerprint(arguments=arguments, mode=mode, bytes=bytes, flops=flops)


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
