"""Compare the outputs of timed calls with those that they should have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness.call_tensors import moved, named_tensors
from pytest_gpuperf.measure.correctness.comparison import Tolerance, compare
from pytest_gpuperf.measure.correctness.poison import holds, same_bits, zero

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Outputs: TypeAlias = "Mapping[str, torch.Tensor]"
"""Outputs of a call by their names in messages."""
PATTERN = 0x5A
"""Fills outputs before a call; not NaN, which a kernel that reads them would spread."""
PATTERNS = (PATTERN, 0xA5)
"""Fill outputs before two plain calls: no value of any type is both."""
LEAST_WRONG = 0.01
"""Share of the elements from which a difference is no matter of rounding and the order of additions."""


class Wrong(NamedTuple):
    """A difference beyond the tolerance."""

    text: str
    clear: bool
    """True if it is too large for rounding at the limit of the tolerance."""


def wrong(got: Outputs, target: Outputs, tolerance: Tolerance) -> Wrong | None:
    """Return the first output that differs from the target, None if none does."""
    for name, tensor in got.items():
        result = compare(tensor, target[name], tolerance, name)
        if not result.passed:
            text = result.failure.partition("\n")[0]
            # Other shapes or types have no count.
            clear = not result.mismatched or result.mismatched >= LEAST_WRONG * result.elements
            return Wrong(text, clear)
    return None


def matched(reference: object, outputs: Outputs) -> Outputs:
    """Map the tensors of a reference to the names of outputs.

    Raises:
        GpuperfError: They are not as many.
    """
    device = next(iter(outputs.values())).device
    named = dict(named_tensors(moved(reference, device), "output"))
    if len(named) != len(outputs):
        raise GpuperfError("the reference returns another number of tensors than the timed calls")
    return named if named.keys() == outputs.keys() else dict(zip(outputs, named.values(), strict=True))


def unwritten(first: Outputs, second: Outputs) -> Outputs:
    """Mark the elements that hold the patterns of their two calls."""
    alike = {name: one for name, one in first.items() if name in second and one.shape == second[name].shape}
    return {name: holds(one, PATTERNS[0]) & holds(second[name], PATTERNS[1]) for name, one in alike.items()}


def leave_out(marked: Outputs, outputs: Outputs) -> None:
    """Make the marked elements of outputs alike, so that they do not count."""
    for name, marks in marked.items():
        if name in outputs and outputs[name].shape == marks.shape:
            zero(outputs[name], marks)


def alike(outputs: Sequence[Outputs]) -> list[list[int]]:
    """Group the positions of outputs that are the same in every bit."""
    groups: list[list[int]] = []
    for at, one in enumerate(outputs):
        for group in groups:
            if _same(one, outputs[group[0]]):
                group.append(at)
                break
        else:
            groups.append([at])
    return groups


def stale(before: Outputs, after: Outputs, target: Outputs, tolerance: Tolerance) -> bool:
    """Return True if most of the wrong elements have their former value, or were not written.

    They also have to be many among those that should have changed. In types of one byte a wrong value is
    often the former one by chance, so there the whole output has to be the former one.
    """
    changed = kept = missed = 0
    for name, tensor in after.items():
        if not tensor.shape == target[name].shape == before[name].shape:
            continue
        old = same_bits(tensor, before[name]) | holds(tensor, PATTERN)
        moves = ~_close(before[name], target[name], tolerance)
        changed += int(moves.sum())
        missed += int((~_close(tensor, target[name], tolerance)).sum())
        if tensor.dtype.itemsize > 1 or old.all():
            kept += int((moves & old).sum())
    return kept > 0 and kept >= LEAST_WRONG * changed and kept >= missed / 2


def _same(one: Outputs, other: Outputs) -> bool:
    return one.keys() == other.keys() and all(
        tensor.shape == other[name].shape
        and tensor.dtype == other[name].dtype
        and bool(same_bits(tensor, other[name]).all())
        for name, tensor in one.items()
    )


def _close(tensor: torch.Tensor, target: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    rtol, atol = tolerance.between(tensor.dtype, target.dtype)
    wide = torch.complex128 if tensor.is_complex() or target.is_complex() else torch.float64
    return torch.isclose(tensor.to(wide), target.to(wide), rtol=rtol, atol=atol, equal_nan=True)
