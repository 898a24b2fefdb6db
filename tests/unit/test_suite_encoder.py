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
def seeded() -> None:
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


def test_attention_is_the_class_token_row_of_softmax(block: EncoderBlock) -> None:
    query, key, _ = block.heads_of(tokens())
    whole = (query @ key.mT / HEAD**0.5).softmax(-1)
    torch.testing.assert_close(attention_paid(query, key), whole[:, :, 0, 1:].mean(1))


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


def test_reducing_blocks_keep_half_of_the_tokens() -> None:
    left, choices = encoder()(tokens(count=20))
    assert [places.shape[1] for _, places in choices] == [10, 5]
    assert left.shape == (2, 6, WIDTH)


def test_tokens_given_are_kept_in_place_of_the_best() -> None:
    stack, x = encoder(), tokens()
    left, choices = stack(x)
    again, _ = stack(x, tuple(places for _, places in choices))
    torch.testing.assert_close(again, left)
    other, _ = stack(x, tuple(places.flip(0) for _, places in choices))
    assert (other - left).abs().max() > 0.1


def test_an_encoder_without_data_has_the_shapes_of_one_with() -> None:
    meta = Encoder.random(torch.device("meta"), torch.float16, REDUCING, width=WIDTH, depth=4)
    left, choices = meta(torch.empty(2, 20, WIDTH, device="meta", dtype=torch.float16))
    assert (left.shape, left.dtype) == ((2, 6, WIDTH), torch.float16)
    assert [paid.dtype for paid, _ in choices] == [torch.float32, torch.float32]


def test_an_encoder_is_compiled_as_one_graph() -> None:
    stack, x = encoder(dtype=torch.float32), tokens(dtype=torch.float32)
    compiled = torch.compile(stack.__call__, backend="eager", fullgraph=True, dynamic=False)
    torch.testing.assert_close(compiled(x)[0], stack(x)[0])
