"""Accuracy of a call with right outputs: error in ULP next to the reference's own, and equal bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.measure.correctness.comparison import dtype_name, unravel
from pytest_gpuperf.measure.correctness.float64_reference import NotWidenedError
from pytest_gpuperf.measure.correctness.poison import same_bits
from pytest_gpuperf.measure.correctness.ulp_error import WIDE, error_of, has_ulp
from pytest_gpuperf.records import Accuracy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

MOST_APART_BITS = 4.0
"""Least number of bits on which a reference and its form in float64 agree. Below it the reference does
something else with other types, such as reading memory as the type that it expects."""


def accuracy_of(
    runs: Sequence[Mapping[str, torch.Tensor]],
    reference: Mapping[str, torch.Tensor],
    widened: Callable[[], Mapping[str, torch.Tensor]] | None,
) -> Accuracy:
    """Measure the accuracy of outputs.

    Of several outputs the one with the largest root mean square error comes first, with those of the others.

    Args:
        runs: Outputs of two calls with the same arguments.
        reference: The reference's outputs by the same names, in the types that it returned.
        widened: Returns the reference's outputs in float64, in the same order; None if it cannot be called.
    """
    first, last = runs
    same = {name: bool(same_bits(first[name], last[name]).all()) for name in last}
    deterministic = all(same.values())
    floating = [name for name, output in last.items() if has_ulp(output)]
    if not floating:
        return Accuracy(same_bits=deterministic, note="no output is of a floating type")
    exact, note = _exact(reference, widened)
    found = [_of_output(name, last[name], reference[name], exact[name]) for name in floating]
    worst = max(found, key=lambda one: -1.0 if one.rms_ulp is None else one.rms_ulp)
    if not note and last[worst.output].dtype in WIDE:
        note = "there is no wider type than float64"
    others = tuple(replace(one, same_bits=same[one.output]) for one in found if one is not worst)
    return replace(worst, same_bits=deterministic, note=note or worst.note, others=others)


def _exact(
    reference: Mapping[str, torch.Tensor], widened: Callable[[], Mapping[str, torch.Tensor]] | None
) -> tuple[Mapping[str, torch.Tensor], str]:
    """Return the best reference that can be had, and why it is not in float64; empty if it is."""
    if all(tensor.dtype in WIDE for tensor in reference.values() if has_ulp(tensor)):
        return reference, ""
    if widened is None:
        return reference, "the reference is given as tensors"
    try:
        wide = dict(zip(reference, widened().values(), strict=True))
    except NotWidenedError as why:
        return reference, str(why)
    except ValueError:
        return reference, "the reference returns another number of tensors in float64"
    for name, tensor in reference.items():
        if has_ulp(tensor) and (why_not := _unlike(wide[name], tensor)):
            return reference, why_not
    return wide, ""


def _unlike(wide: torch.Tensor, given: torch.Tensor) -> str:
    """Return why a tensor is not the exact form of a given one; empty if it is."""
    if wide.dtype not in WIDE:
        return f"the reference returns {dtype_name(wide)} for float64"
    if wide.shape != given.shape or wide.device != given.device:
        return "the reference returns another shape for float64"
    error = error_of(given, wide, given.dtype)
    if error is not None and error.bits < MOST_APART_BITS:
        return "the reference returns other values for float64"
    return ""


def _of_output(name: str, output: torch.Tensor, given: torch.Tensor, exact: torch.Tensor) -> Accuracy:
    error = error_of(output, exact, output.dtype)
    own = None
    if given.dtype == output.dtype and exact is not given:
        own = error_of(given, exact, output.dtype)
    if error is None:
        return Accuracy(output=name, note="no element is a number")
    return Accuracy(
        reference=dtype_name(exact),
        output=name,
        dtype=dtype_name(output),
        elements=error.elements,
        max_ulp=error.max_ulp,
        max_ulp_index=unravel(error.max_at, _shape(output)),
        rms_ulp=error.rms_ulp,
        bits=error.bits,
        reference_rms_ulp=own.rms_ulp if own else None,
    )


def _shape(output: torch.Tensor) -> tuple[int, ...]:
    """Return the shape of the numbers; a complex one is two."""
    return (*output.shape, 2) if output.is_complex() else tuple(output.shape)
