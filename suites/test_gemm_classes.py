"""One encoder block, naive and with few launches, in float32 and in bfloat16.

Which products are large, which are small and frequent, and which helps more: tensor cores or fewer launches?
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from suites.kernels.encoder import EncoderBlock, norm
from suites.kernels.naive_block import attention_by_parts, heads_one_by_one, naive_block

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf import Gpuperf

BATCH, TOKENS, WIDTH = 2, 1024, 768
"""Twelve heads, as in ViT-B or BERT."""
PRODUCTS = r"gemm|gemv|nvjet|cutlass|xmma|flash|fmha|sdpa"
"""Names of kernels of cuBLAS, and of the attention of torch, FlashAttention and cuDNN."""

FLOAT32_ATOL = 1e-4
"""Roundings to 2^-24 over 3072 products of the order of 1 / sqrt(3072) add up like a random walk to a few
2^-24 · sqrt(3072) = 3e-6. TF32, with 2^-11, would miss this by far."""
BFLOAT16_RTOL, BFLOAT16_ATOL = 2**-7, 0.1
"""The inputs of four successive products are rounded to 8 bits, with errors up to 2^-8, half of that on
average, so 4 · 2^-9 = 0.008 in the result. The largest of two million such errors is about six times that,
and this is twice the largest. A missing bias or head changes many elements by more; the same form in float32
finds smaller errors."""

naive = pytest.mark.gpuperf(limits=["launches >= 80"])
fused = pytest.mark.gpuperf(limits=["launches <= 20", "class.small_frequent <= 0"])


def block_and_tokens(gpuperf: Gpuperf, dtype: torch.dtype) -> tuple[EncoderBlock, torch.Tensor]:
    torch.manual_seed(0)
    block = EncoderBlock.random(WIDTH, gpuperf.device, dtype)
    return block, torch.randn(BATCH, TOKENS, WIDTH, device=gpuperf.device).to(dtype)


def measure(
    gpuperf: Gpuperf,
    form: Callable[[EncoderBlock, torch.Tensor], torch.Tensor],
    block: EncoderBlock,
    x: torch.Tensor,
) -> None:
    # The reference has the same weights, since their rounding is not an error of the block.
    wide = torch.float64 if x.dtype == torch.float32 else torch.float32
    rtol, atol = (0.0, FLOAT32_ATOL) if x.dtype == torch.float32 else (BFLOAT16_RTOL, BFLOAT16_ATOL)

    def reference(block: EncoderBlock, x: torch.Tensor) -> torch.Tensor:
        return naive_block(block.to(wide), x.to(wide))

    gpuperf.check(form, block, x, expected=reference, rtol=rtol, atol=atol)
    gpuperf.time(form, block, x, flops=block.flops(BATCH, TOKENS))
    gpuperf.trace(form, block, x)


@naive
@pytest.mark.gpuperf(
    kernels=PRODUCTS,
    limits=[
        "tensor_core_share <= 0",
        "tensor_active <= 1 %",
        "class.large_core > 0",
        # More than the kernels that cuBLAS adds to each product of a head when it splits K.
        "class.small_frequent >= 20",
        "class.medium_auxiliary > 0",
    ],
)
def test_naive_float32(gpuperf: Gpuperf) -> None:
    """Write the block as in a lecture: 36 products of one head each, none on tensor cores."""
    block, x = block_and_tokens(gpuperf, torch.float32)
    measure(gpuperf, naive_block, block, x)
    # Counters of a third of the small products, which are equal, and of the products of the attention.
    rows = norm(x).flatten(0, 1)
    gpuperf.profile(heads_one_by_one, block, 0, rows, label="queries")
    query, key, value = (part.flatten(0, 1).contiguous() for part in block.heads_of(x))
    gpuperf.profile(attention_by_parts, query, key, value, label="attention")


@naive
def test_naive_bfloat16(gpuperf: Gpuperf) -> None:
    """Change only the type, for tensor cores."""
    measure(gpuperf, naive_block, *block_and_tokens(gpuperf, torch.bfloat16))


@fused
def test_fused_float32(gpuperf: Gpuperf) -> None:
    """Change only the number of launches."""
    measure(gpuperf, EncoderBlock.__call__, *block_and_tokens(gpuperf, torch.float32))


@fused
@pytest.mark.gpuperf(kernels=PRODUCTS, limits=["tensor_core_share >= 50", "tensor_active >= 10"])
def test_fused_bfloat16(gpuperf: Gpuperf) -> None:
    """Change both."""
    block, x = block_and_tokens(gpuperf, torch.bfloat16)
    measure(gpuperf, EncoderBlock.__call__, block, x)
    gpuperf.profile(EncoderBlock.__call__, block, x)
