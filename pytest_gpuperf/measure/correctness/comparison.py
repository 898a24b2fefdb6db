"""Compare an output with its reference: difference, its place, tolerance; find what a reference misses."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import torch

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.correctness.call_tensors import mapped
from pytest_gpuperf.measure.device import memory
from pytest_gpuperf.records import Correctness

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEFAULT_TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
"""(rtol, atol) by type, from the documentation of `torch.testing.assert_close`; (0, 0) for all others."""

_CHUNK = 1 << 24
"""Elements compared at once: 128 MiB for each of a handful of float64 intermediates."""
LEAST_ELEMENTS = 16
"""Fewer elements are not expected to differ."""
WIDE_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
"""Types whose smallest and largest elements torch does not find."""


@dataclass(frozen=True)
class Tolerance:
    """Tolerances of the caller; None for the defaults."""

    rtol: float | None = None
    atol: float | None = None
    equal_nan: bool = False

    def __post_init__(self) -> None:
        if (self.rtol is None) != (self.atol is None):
            given, missing = ("rtol", "atol") if self.atol is None else ("atol", "rtol")
            raise GpuperfError(
                f"{given}= without {missing}=",
                expected="both or neither",
                next_step=f"add {missing}=0.0 if the other alone is to count",
            )

    def between(self, actual: torch.dtype, expected: torch.dtype) -> tuple[float, float]:
        """Get (rtol, atol) for two types: by default the looser of the two types' own."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        of_types = [DEFAULT_TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in (actual, expected)]
        return max(rtol for rtol, _ in of_types), max(atol for _, atol in of_types)


def compare(
    actual: torch.Tensor,
    expected: torch.Tensor,
    tolerance: Tolerance,
    name: str = "output",
    unwritten: torch.Tensor | None = None,
) -> Correctness:
    """Compare one output with its reference.

    Args:
        actual: The output.
        expected: The reference; may have a wider floating type.
        tolerance: The tolerances.
        name: Name of the output in messages.
        unwritten: Mask of the elements that were never written; None for none.
    """
    rtol, atol = tolerance.between(actual.dtype, expected.dtype)
    dtype = dtype_name(actual)
    unlike = _unlike(actual, expected)
    if unlike:
        return Correctness(
            passed=False,
            dtype=dtype,
            elements=actual.numel(),
            failure=f"{name} {unlike}",
            rtol=rtol,
            atol=atol,
        )
    tally = _Tally(rtol, atol, tolerance.equal_nan)
    masks = torch.zeros_like(actual, dtype=torch.bool) if unwritten is None else unwritten
    flat = [tensor.reshape(-1) for tensor in (actual, expected, masks)]
    for start in range(0, actual.numel(), _CHUNK):
        tally.add(start, *(tensor[start : start + _CHUNK] for tensor in flat))
    return Correctness(
        passed=not tally.mismatched,
        max_abs_diff=tally.largest_abs.value,
        max_abs_index=_unravel(tally.largest_abs.at, actual.shape),
        max_rel_diff=tally.largest_rel.value,
        max_rel_index=_unravel(tally.largest_rel.at, actual.shape),
        dtype=dtype,
        elements=actual.numel(),
        mismatched=tally.mismatched,
        rtol=rtol,
        atol=atol,
        failure=_failure(name, actual, expected, tally, masks) if tally.mismatched else "",
    )


def valid_part(output: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Return the part of a padded output that its reference has: the first elements of each dimension."""
    return output[tuple(map(slice, reference.shape))] if output.ndim == reference.ndim else output


def merge(results: Sequence[Correctness]) -> Correctness:
    """Merge several outputs: counts added, the rest from the first failed output.

    If none failed, the rest is from the output with the largest absolute difference.
    """
    shown = next(
        (result for result in results if not result.passed),
        max(results, key=lambda result: result.max_abs_diff),
    )
    return msgspec.structs.replace(
        shown,
        elements=sum(result.elements for result in results),
        mismatched=sum(result.mismatched for result in results),
    )


def never_written(unwritten: torch.Tensor) -> str:
    """Return text such as `3 of 8 elements are never written, the first at [1, 1]`."""
    return f"{_how_many(unwritten)} never written, {_first(unwritten)}"


def dtype_name(tensor: torch.Tensor) -> str:
    """Return a type's short name such as `bfloat16`."""
    return str(tensor.dtype).removeprefix("torch.")


@dataclass
class _Largest:
    value: float = 0.0
    at: int | None = None
    """Index into the flattened output; None until something differs."""

    def offer(self, values: torch.Tensor, start: int) -> None:
        value, at = values.max(0)
        if value.item() > self.value:
            self.value, self.at = value.item(), start + int(at)


@dataclass
class _Tally:
    """Goes over an output in pieces."""

    rtol: float
    atol: float
    equal_nan: bool
    mismatched: int = 0
    largest_abs: _Largest = field(default_factory=_Largest)
    largest_rel: _Largest = field(default_factory=_Largest)
    unbounded: int = 0
    """Elements with an infinite difference, without those that are NaN or never written."""
    unbounded_at: int | None = None
    """Index of the first of them into the flattened output."""

    def add(self, start: int, actual: torch.Tensor, expected: torch.Tensor, unwritten: torch.Tensor) -> None:
        """Add a non-empty flat piece that begins at `start`."""
        actual, expected = _widened(actual), _widened(expected)
        same = actual == expected
        if self.equal_nan:
            same |= actual.isnan() & expected.isnan()
        difference, size = _magnitude(actual - expected), _magnitude(expected)
        finite = difference.isfinite()
        close = same | (finite & (difference <= self.atol + self.rtol * size))
        self.mismatched += int((~close | unwritten).sum())
        unbounded = ~(close | finite | unwritten)
        if not self.equal_nan:
            unbounded &= ~actual.isnan()
        if unbounded.any():
            self.unbounded += int(unbounded.sum())
            if self.unbounded_at is None:
                self.unbounded_at = start + int(unbounded.nonzero()[0])
        difference = difference.where(finite & ~same, 0.0)
        self.largest_abs.offer(difference, start)
        # Divided by a subnormal number the quotient can overflow, and JSON has no infinity.
        relative = (difference / size).where(size > 0, 0.0).clamp(max=torch.finfo(torch.float64).max)
        self.largest_rel.offer(relative, start)


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    """Convert to the widest type of its kind, so that differences are exact."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.to(torch.float64 if tensor.is_floating_point() else torch.int64)


def _magnitude(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.abs() if tensor.is_complex() else tensor.to(torch.float64).abs()


def _unlike(actual: torch.Tensor, expected: torch.Tensor) -> str:
    """Return the reason that two tensors cannot be compared; empty if they can."""
    if actual.shape != expected.shape:
        return f"has shape {list(actual.shape)}, the reference {list(expected.shape)}"
    if actual.device != expected.device:
        return f"is on {actual.device}, the reference on {expected.device}"
    if actual.dtype != expected.dtype and not _wider(expected.dtype, actual.dtype):
        return (
            f"is {dtype_name(actual)}, the reference {dtype_name(expected)}; "
            "only a wider floating type is taken as the reference of a narrower one"
        )
    return ""


def _wider(dtype: torch.dtype, other: torch.dtype) -> bool:
    alike = (dtype.is_floating_point and other.is_floating_point) or (dtype.is_complex and other.is_complex)
    return alike and torch.finfo(dtype).bits > torch.finfo(other).bits


def _failure(
    name: str, actual: torch.Tensor, expected: torch.Tensor, tally: _Tally, unwritten: torch.Tensor
) -> str:
    share = 100 * tally.mismatched / actual.numel()
    shown = f"{share:.2g}" if share < 99.5 else "100"
    lines = [
        f"{name} differs from the reference: {tally.mismatched} of {actual.numel()} elements ({shown} %) "
        f"beyond rtol={tally.rtol:g}, atol={tally.atol:g}"
    ]
    nan = actual.isnan() & ~unwritten
    if not tally.equal_nan and nan.any():
        lines.append(f"{_how_many(nan)} NaN, {_first(nan)}")
    if unwritten.any():
        lines.append(never_written(unwritten))
    if tally.unbounded_at is not None:
        at = _unravel(tally.unbounded_at, actual.shape)
        lines.append(
            f"{_of(tally.unbounded, actual.numel())} off by an infinite amount, the first at {list(at)} "
            f"(actual {_show(actual[at])}, expected {_show(expected[at])})"
        )
    for kind, largest in (("absolute", tally.largest_abs), ("relative", tally.largest_rel)):
        if largest.at is not None:
            at = _unravel(largest.at, actual.shape)
            lines.append(
                f"largest {kind} difference {largest.value:.3g} at {list(at)} "
                f"(actual {_show(actual[at])}, expected {_show(expected[at])})"
            )
    return "\n".join(lines)


def _how_many(mask: torch.Tensor) -> str:
    return _of(int(mask.sum()), mask.numel())


def _of(count: int, elements: int) -> str:
    return f"{count} of {elements} elements {'is' if count == 1 else 'are'}"


def _first(mask: torch.Tensor) -> str:
    flat = mask.reshape(-1)
    # torch's `nonzero` takes less than 2**31 elements on a GPU.
    starts = (start for start in range(0, flat.numel(), _CHUNK) if flat[start : start + _CHUNK].any())
    start = next(starts)
    at = start + int(flat[start : start + _CHUNK].nonzero()[0])
    return f"the first at {list(_unravel(at, mask.shape))}"


def _show(value: torch.Tensor) -> str:
    number = _widened(value).item()
    return f"{number:.7g}" if value.is_floating_point() or value.is_complex() else str(number)


def unravel(at: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of an element from its place; torch's own function loads its compiler, for seconds."""
    return tuple(map(int, np.unravel_index(at, tuple(shape))))


def _unravel(at: int | None, shape: torch.Size) -> tuple[int, ...]:
    return () if at is None else unravel(at, shape)


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
        lambda one: memory.copy(one).view(one.dtype) if isinstance(one, torch.Tensor) else one, value
    )


def low_signal(name: str, reference: torch.Tensor, actual: torch.dtype, tolerance: Tolerance) -> str:
    """Describe a reference that one constant would match; empty if none would.

    Args:
        name: Name of the output.
        reference: Its reference.
        actual: Type of the output.
        tolerance: Tolerances of the comparison.
    """
    if reference.numel() < LEAST_ELEMENTS or reference.is_complex():
        return ""
    values = reference.detach()
    if values.dtype == torch.bool or values.dtype.itemsize == 1:
        values = values.to(torch.float32)
    elif values.dtype in WIDE_UNSIGNED:
        values = values.to(torch.int64)
    low, high = (float(value) for value in values.aminmax())
    if low == high:
        return f"the reference of {name} is {'all zero' if low == 0 else f'{low:g} everywhere'}"
    if not math.isfinite(high - low):
        return ""
    rtol, atol = tolerance.between(actual, reference.dtype)
    middle = (low + high) / 2
    if (high - low) / 2 <= atol + rtol * min(abs(low), abs(high), abs(middle)):
        return f"the reference of {name} varies from {low:g} to {high:g}, within the tolerance"
    return ""
