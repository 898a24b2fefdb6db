"""References that tell little: a wrong output could agree with them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from pytest_gpuperf.measure.correctness.comparison import Tolerance

LEAST_ELEMENTS = 16
"""Fewer elements are not expected to differ."""
WIDE_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
"""Types whose smallest and largest elements torch does not find."""


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
