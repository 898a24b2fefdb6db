"""What a call needs in common with another one to be compared with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    # Not by its class: torch may be a stand-in, and other libraries have tensors too.
    if all(hasattr(value, name) for name in ("dtype", "shape", "is_contiguous", "stride")):
        strides = "" if value.is_contiguous() else f" by {list(value.stride())}"
        yield f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{strides}"
    elif value is None or isinstance(value, (bool, int, float, complex)):
        yield repr(value)
    elif isinstance(value, (list, tuple, Mapping)) and depth:
        items = value.values() if isinstance(value, Mapping) else value
        for one in items:
            yield from _described(one, depth - 1)
    else:
        # Its name may hold a path or an address.
        yield type(value).__name__
