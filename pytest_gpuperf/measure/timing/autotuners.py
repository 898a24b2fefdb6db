"""Configurations that the autotuners in a callable picked."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_gpuperf.compat.triton_names import choices_noted

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def watched() -> Iterator[dict[str, str]]:
    """Collect the configurations that Triton's autotuners pick inside the `with`, by kernel name."""
    picked: dict[str, str] = {}
    with choices_noted(picked.__setitem__):
        yield picked
