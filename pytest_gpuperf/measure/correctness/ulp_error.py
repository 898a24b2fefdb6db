"""Error of an output in units in the last place (ULP) of its type.

The ULP of a number x with 2^e <= |x| < 2^(e+1) is 2^(e-p+1) in a type of p significant bits (Goldberg 1991,
"What every computer scientist should know about floating-point arithmetic", section 1.2); below the smallest
normal number it is the step between subnormal ones (Muller 2005, "On the definition of ulp(x)"). Errors are
measured in the ULP of the reference, so a correctly rounded output is wrong by at most half of one.

Two figures complete each other. The largest error is that of one element, in its own ULP; in a sum that
cancels it is large for any order of the additions. The root mean square is that of all differences, in the
ULP of the root mean square of the reference: the normwise error of Higham 2002, "Accuracy and Stability of
Numerical Algorithms", section 6.2. Rounding of products to fewer bits shows in it whatever the data are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

PIECE = 1 << 22
"""Elements that are compared at once: 32 MiB for each of a handful of float64 intermediates."""
PIECES = 4
"""Maximum number of pieces; a larger output is sampled."""
SAMPLE = 1 << 14
"""Elements in a row of a sample: a few rows of most outputs, so a fault of single blocks is seen."""
WIDE = (torch.float64, torch.complex128)
"""Types of an exact reference."""
MOST_BITS = 64.0
"""Bits on which equal numbers agree."""
LARGEST = 1e12
"""Largest figure that is kept, such as for an error where the reference is 0."""


@dataclass(frozen=True)
class Error:
    """Error of one output against its reference."""

    max_ulp: float
    max_at: int
    """Index of the largest error into the flattened output."""
    rms_ulp: float
    bits: float
    """Significant bits on which output and reference agree: the root mean square error is 2^-bits of the
    root mean square of the reference."""
    elements: int
    """Number of elements compared."""


def has_ulp(tensor: torch.Tensor) -> bool:
    """Return True for a floating or complex type."""
    return tensor.is_floating_point() or tensor.is_complex()


def ulp(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the ULP in `dtype` of each value, which are float64, finite and at most `dtype`'s largest."""
    info = torch.finfo(dtype)
    exponent_bits = 0x7FF << 52
    powers = values.abs().clamp(min=info.smallest_normal).view(torch.int64) & exponent_bits
    return powers.view(torch.float64) * info.eps


def error_of(actual: torch.Tensor, reference: torch.Tensor, dtype: torch.dtype) -> Error | None:
    """Measure the error of an output.

    NaN in either is left out: the comparison by tolerance judges it. Infinity counts as the largest number.

    Args:
        actual: The output.
        reference: The exact values, of the same shape; mostly of a wider type.
        dtype: Type of the ULP: that of the output under test.

    Returns:
        None if there is no element to compare.
    """
    sums = _Sums(dtype)
    flat = [_parts(tensor) for tensor in (actual, reference)]
    elements = flat[0].numel()
    if elements <= PIECE * PIECES:
        for at in range(0, elements, PIECE):
            sums.add(at, 0, *(tensor[at : at + PIECE].unsqueeze(0) for tensor in flat))
        return sums.error()
    rows = PIECE // SAMPLE
    step = (elements - SAMPLE) // (rows * PIECES - 1)
    samples = [tensor.unfold(0, SAMPLE, step)[: rows * PIECES] for tensor in flat]
    for row in range(0, rows * PIECES, rows):
        sums.add(row * step, step, *(sample[row : row + rows] for sample in samples))
    return sums.error()


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    """Return all numbers in a row; a complex one is two."""
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).reshape(-1)


@dataclass
class _Sums:
    """Goes over an output in pieces; nothing waits for the GPU before the end."""

    dtype: torch.dtype
    elements: int = 0
    _places: list[tuple[int, int, int]] = field(default_factory=list)
    _found: list[torch.Tensor] = field(default_factory=list)

    def add(self, start: int, step: int, actual: torch.Tensor, reference: torch.Tensor) -> None:
        """Add rows of elements: the first begins at `start`, and each one `step` behind the former."""
        largest = torch.finfo(self.dtype).max
        actual, reference = (tensor.to(torch.float64) for tensor in (actual, reference))
        known = ~(actual.isnan() | reference.isnan())
        actual, reference = (
            tensor.where(known, 0.0).clamp(-largest, largest) for tensor in (actual, reference)
        )
        errors = (actual - reference).abs()
        worst, at = (errors / ulp(reference, self.dtype)).reshape(-1).max(0)
        found = [worst, at, errors.square().sum(), reference.square().sum(), known.sum()]
        self._places.append((start, step, actual.shape[1]))
        self._found.append(torch.stack([value.to(torch.float64) for value in found]))
        self.elements += actual.numel()

    def error(self) -> Error | None:
        """Return the figures of all pieces; None if there is no number in any."""
        rows = torch.stack(self._found).tolist() if self._found else []
        count = sum(found[4] for found in rows)
        if not count:
            return None
        piece = max(range(len(rows)), key=lambda index: rows[index][0])
        start, step, width = self._places[piece]
        row, column = divmod(int(rows[piece][1]), width)
        rms_error, rms = (math.sqrt(sum(found[index] for found in rows) / count) for index in (2, 3))
        reference = torch.tensor([min(rms, torch.finfo(self.dtype).max)], dtype=torch.float64)
        return Error(
            max_ulp=min(rows[piece][0], LARGEST),
            max_at=start + row * step + column,
            rms_ulp=min(rms_error / float(ulp(reference, self.dtype)), LARGEST),
            bits=_bits(rms_error, rms),
            elements=self.elements,
        )


def _bits(rms_error: float, rms: float) -> float:
    if not rms_error:
        return MOST_BITS
    return min(MOST_BITS, max(0.0, math.log2(rms / rms_error))) if rms else 0.0
