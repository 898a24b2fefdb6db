"""One encoder block, written formula by formula and as few launches, in float32 and in bfloat16.

Which products are large, which are small and frequent, and what helps more: tensor cores, or fewer launches?
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from suites.kernels.encoder import EncoderBlock
from suites.kernels.naive_block import naive_block

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf import Gpuperf

BATCH, TOKENS, WIDTH = 4, 1024, 512
"""Eight heads. The product of one head fills an eighth of the columns that the whole projection has."""
PRODUCTS = r"gemm|gemv|nvjet|cutlass|xmma|flash|fmha|sdpa"
"""What cuBLAS, and the attention of torch, FlashAttention and cuDNN, call their kernels."""

FLOAT32_ATOL = 1e-4
"""Roundings to 2^-24 that add up like a random walk over 2048 products of the order of 1 / sqrt(2048) come to
a few 2^-24 · sqrt(2048) = 3e-6. TF32, with 2^-11, would miss this by far."""
BFLOAT16_RTOL, BFLOAT16_ATOL = 2**-7, 0.1
"""Four products follow each other, and what goes into each is rounded to 8 bits: off by up to 2^-8, by half
of that in the mean, so by 4 · 2^-9 = 0.008 in the result. The largest of two million such errors is about six
times that, and this is twice the largest. A bias, head or scale left out changes many elements by more."""

naive = pytest.mark.gpuperf(limits=["launches >= 60"])
fused = pytest.mark.gpuperf(limits=["launches <= 20", "class.small_frequent <= 0"])


def measure(
    gpuperf: Gpuperf,
    form: Callable[[EncoderBlock, torch.Tensor], torch.Tensor],
    dtype: torch.dtype,
    *,
    counters: bool,
) -> None:
    torch.manual_seed(0)
    block = EncoderBlock.random(WIDTH, gpuperf.device, dtype)
    x = torch.randn(BATCH, TOKENS, WIDTH, device=gpuperf.device).to(dtype)
    # The reference has the same weights: what their own rounding changes is no error of the block.
    wide = torch.float64 if dtype == torch.float32 else torch.float32
    rtol, atol = (0.0, FLOAT32_ATOL) if dtype == torch.float32 else (BFLOAT16_RTOL, BFLOAT16_ATOL)

    def reference(block: EncoderBlock, x: torch.Tensor) -> torch.Tensor:
        return naive_block(block.to(wide), x.to(wide))

    gpuperf.check(form, block, x, expected=reference, rtol=rtol, atol=atol)
    gpuperf.time(form, block, x, flops=block.flops(BATCH, TOKENS))
    gpuperf.trace(form, block, x)
    if counters:
        gpuperf.profile(form, block, x)


@naive
@pytest.mark.gpuperf(
    kernels=PRODUCTS,
    limits=[
        "tensor_core_share <= 0",
        "tensor_active <= 1",
        "class.large_core > 0",
        "class.small_frequent > 0",
        "class.medium_auxiliary > 0",
    ],
)
def test_naive_float32(gpuperf: Gpuperf) -> None:
    """As the block is written in a lecture: 24 products of one head each, and not one on tensor cores."""
    measure(gpuperf, naive_block, torch.float32, counters=True)


@naive
@pytest.mark.gpuperf(limits=["class.small_frequent > 0"])
def test_naive_bfloat16(gpuperf: Gpuperf) -> None:
    """Tensor cores alone: the same launches."""
    measure(gpuperf, naive_block, torch.bfloat16, counters=False)


@fused
def test_fused_float32(gpuperf: Gpuperf) -> None:
    """Fewer launches alone: the same type."""
    measure(gpuperf, EncoderBlock.__call__, torch.float32, counters=False)


@fused
@pytest.mark.gpuperf(kernels=PRODUCTS, limits=["tensor_core_share >= 50", "tensor_active >= 10"])
def test_fused_bfloat16(gpuperf: Gpuperf) -> None:
    """Both."""
    measure(gpuperf, EncoderBlock.__call__, torch.bfloat16, counters=True)
