"""Parts of the suites' matrix products, and values of their formats, without a GPU."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", minversion="3.9")  # older interpreters cannot run the loops

from suites.kernels.microscaling import E8M0_BIAS, MXFP4, MXFP8, NVFP4, dequantise


def test_bytes_have_the_values_of_the_specifications() -> None:
    every_code = torch.tensor([[0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]], dtype=torch.uint8)
    positive = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    values = torch.tensor([[*positive, *(-value for value in positive)]], dtype=torch.float64)
    twice = every_code.repeat(1, 2)
    scales = torch.tensor([[E8M0_BIAS + 2]], dtype=torch.uint8)
    assert dequantise(twice, scales, MXFP4).equal(4 * values.repeat(1, 2))
    scales = torch.tensor([[0.75, 2.0]]).to(torch.float8_e4m3fn)
    assert dequantise(twice, scales, NVFP4).equal(torch.cat((0.75 * values, 2 * values), dim=1))
    numbers = torch.linspace(-240, 240, 31)[None].repeat(1, 2)[:, :32].to(torch.float8_e4m3fn)
    scales = torch.tensor([[E8M0_BIAS - 3]], dtype=torch.uint8)
    assert dequantise(numbers.view(torch.uint8), scales, MXFP8).equal(numbers.double() / 8)
