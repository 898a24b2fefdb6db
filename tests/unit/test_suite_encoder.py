"""Results of the suites' encoder blocks, with small shapes on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from suites.kernels.encoder import HEAD, EncoderBlock
from suites.kernels.naive_block import naive_block
from suites.kernels.token_reduction import Encoder, attention_paid, reducing_block

if TYPE_CHECKING:
    from collections.abc import Callable

CPU = torch.device("cpu")
WIDTH = 3 * HEAD
REDUCING = (1, 2)


@pytest.fixture(autouse=True)
def seeded(_seed_restored: None) -> None:
    torch.manual_seed(0)


@pytest.fixture
def block() -> EncoderBlock:
    return EncoderBlock.random(WIDTH, CPU, torch.float64)


def tokens(batch: int = 2, count: int = 20, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(batch, count, WIDTH, dtype=dtype)


def encoder(reducing: tuple[int, ...] = REDUCING, dtype: torch.dtype = torch.float64) -> Encoder:
    return Encoder.random(CPU, dtype, reducing, width=WIDTH, depth=4)


def flops_counted(fn: Callable[..., object], *args: object) -> int:
    # torch cannot count the operations of the CPU's fused attention.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        fn(*args)
    return int(counter.get_total_flops())


def test_naive_and_fused_block_compute_the_same(block: EncoderBlock) -> None:
    x = tokens()
    torch.testing.assert_close(naive_block(block, x), block(x), rtol=1e-12, atol=1e-12)


def test_operations_of_a_block_are_those_that_torch_counts(block: EncoderBlock) -> None:
    x = tokens()
    assert block.flops(*x.shape[:2]) == flops_counted(block, x) == flops_counted(naive_block, block, x)


@pytest.mark.parametrize("reducing", [(), REDUCING], ids=["full", "reduced"])
def test_operations_of_an_encoder_are_those_that_torch_counts(reducing: tuple[int, ...]) -> None:
    x = tokens()
    assert encoder(reducing).flops(*x.shape[:2]) == flops_counted(encoder(reducing), x)


def test_reducing_block_keeps_most_attended_tokens(block: EncoderBlock) -> None:
    x = tokens(batch=2, count=10)
    query, key, value = block.heads_of(x)
    paid = attention_paid(query, key)
    seen = block.attend(x, query, key, value)
    left, (best, _) = reducing_block(block, x)
    for image in range(2):
        order = sorted(range(9), key=lambda place: -float(paid[image, place]))[:5]
        expected = torch.stack([seen[image, 0], *(seen[image, 1 + place] for place in order)])
        torch.testing.assert_close(left[image], block.perceive(expected[None])[0])
        torch.testing.assert_close(best[image], paid[image, order])
