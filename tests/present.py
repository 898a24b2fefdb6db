"""Values that a type allows to be missing."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """Check that a value is there, and return it."""
    assert value is not None
    return value
