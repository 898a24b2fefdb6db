"""Storage and values of matrices of 8-bit and 4-bit floats with scales.

mxfp8 (E4M3) and mxfp4 (E2M1, two in a byte) have a power of two (E8M0) for every 32 elements, by the OCP
Microscaling Formats specification 1.0. NVIDIA's nvfp4 has E2M1 too, with a scale in E4M3 for every 16.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Values of the codes without the sign, the fourth bit."""
E8M0_BIAS = 127


@dataclass(frozen=True)
class Format:
    """Storage of a matrix: rows of bytes of elements, and separate rows of scales."""

    name: str
    elements: str
    """`e4m3` or `e2m1`, as `tl.dot_scaled` calls them."""
    per_byte: int
    """Elements in a byte, the first in the lower bits."""
    per_scale: int
    """Number of elements that share a scale."""
    scales: torch.dtype
    """Type of the scales; bytes are exponents."""
    mean_square: float
    """Mean square of the elements by `random_matrix`."""

    def __str__(self) -> str:
        """Return `mxfp8`."""
        return self.name


E2M1_MEAN_SQUARE = sum(value**2 for value in E2M1) / len(E2M1)
MXFP8 = Format("mxfp8", "e4m3", 1, 32, torch.uint8, mean_square=1.0)
MXFP4 = Format("mxfp4", "e2m1", 2, 32, torch.uint8, mean_square=E2M1_MEAN_SQUARE)
NVFP4 = Format("nvfp4", "e2m1", 2, 16, torch.float8_e4m3fn, mean_square=E2M1_MEAN_SQUARE)


def random_matrix(form: Format, rows: int, k: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return elements (normally distributed for mxfp8, else uniform over codes) and scales of 1/8 to 1."""
    if form.elements == "e4m3":
        elements = torch.randn(rows, k, device=device).to(torch.float8_e4m3fn).view(torch.uint8)
    else:
        elements = torch.randint(256, (rows, k // form.per_byte), device=device, dtype=torch.uint8)
    shape = (rows, k // form.per_scale)
    if form.scales == torch.uint8:
        scales = torch.randint(E8M0_BIAS - 3, E8M0_BIAS + 1, shape, device=device, dtype=torch.uint8)
    else:
        scales = torch.empty(shape, device=device).uniform_(1 / 8, 1).to(form.scales)
    return elements, scales


def dequantise(elements: torch.Tensor, scales: torch.Tensor, form: Format) -> torch.Tensor:
    """Decode the bytes to float64; every value is exact."""
    if form.elements == "e4m3":
        values = elements.view(torch.float8_e4m3fn).double()
    else:
        table = torch.tensor([*E2M1, *(-value for value in E2M1)], device=elements.device)
        codes = torch.stack((elements & 0xF, elements >> 4), dim=-1).flatten(-2)
        values = table.double()[codes.long()]
    factors = torch.exp2(scales.double() - E8M0_BIAS) if scales.dtype == torch.uint8 else scales.double()
    return values * factors.repeat_interleave(form.per_scale, dim=1)


def exact_block_scaled(
    a: torch.Tensor, b: torch.Tensor, a_scales: torch.Tensor, b_scales: torch.Tensor, form: Format, *_: object
) -> torch.Tensor:
    """Return the product of a matrix of M rows and one of N rows, in float64."""
    return dequantise(a, a_scales, form) @ dequantise(b, b_scales, form).T
