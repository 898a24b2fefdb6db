"""A reference with a check of its own, which accepts more than one output: ties of a sort in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.measure.correctness import poison
from pytest_gpuperf.measure.trees import mapped

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class ReferenceWithCheck:
    """A reference whose figures are information: its own check decides."""

    reference: Callable[..., object]
    objection: Callable[[tuple[Any, ...], Any], str]
    """Returns why an output for some arguments is wrong, empty if it is right; changes neither."""

    def __call__(self, *args: Any) -> object:
        """Call the reference."""
        return self.reference(*args)


def copy_of(value: object) -> object:
    """Copy the tensors in nested tuples, lists and dicts, with the same bits."""
    return mapped(
        lambda one: poison.copy(one).view(one.dtype) if isinstance(one, torch.Tensor) else one, value
    )
