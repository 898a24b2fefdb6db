"""A vision transformer that drops the tokens its class token looks at least: fewer operations, more launches.

The tokens are chosen as in EViT (Liang et al., 2022, "Not All Patches are What You Need"), which drops them
between the attention and the perceptron of some blocks, by the attention that the class token pays them in
the mean over the heads. The tokens that are dropped are not merged into one here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import TypeAlias

import torch

from suites.kernels.encoder import HEAD, EncoderBlock, norm

PATCH = 16
WIDTH, DEPTH = 768, 12
"""ViT-B/16's."""
REDUCING = (3, 6, 9)
"""Blocks that drop tokens, counted from 0."""
KEPT = 0.5
"""Share of the tokens beside the class token that each of them keeps."""

Choice: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""The attention paid to the tokens that are kept (batch x kept, float32), the most first, and their places
among the tokens beside the class token."""


def tokens_of(size: int) -> int:
    """Patches of a square image of `size` pixels a side, and the class token."""
    return (size // PATCH) ** 2 + 1


@dataclass(frozen=True)
class Encoder:
    """A stack of blocks, some of which drop tokens."""

    blocks: tuple[EncoderBlock, ...]
    reducing: tuple[int, ...] = ()

    @classmethod
    def random(
        cls,
        device: torch.device,
        dtype: torch.dtype,
        reducing: tuple[int, ...] = (),
        width: int = WIDTH,
        depth: int = DEPTH,
    ) -> Encoder:
        """A stack with random weights on a device, which may be `meta`."""
        return cls(tuple(EncoderBlock.random(width, device, dtype) for _ in range(depth)), reducing)

    def to(self, dtype: torch.dtype) -> Encoder:
        """The same numbers in another type."""
        return replace(self, blocks=tuple(block.to(dtype) for block in self.blocks))

    def __call__(
        self, x: torch.Tensor, places: tuple[torch.Tensor, ...] = ()
    ) -> tuple[torch.Tensor, tuple[Choice, ...]]:
        """Encode tokens (batch x tokens x width), the class token first.

        Args:
            x: The tokens.
            places: Tokens to keep in place of those that are looked at most, for each block that drops some.

        Returns:
            The tokens that are left, and what was chosen in each block that drops some.
        """
        choices: list[Choice] = []
        for index, block in enumerate(self.blocks):
            if index in self.reducing:
                x, choice = reducing_block(block, x, places[len(choices)] if places else None)
                choices.append(choice)
            else:
                x = block(x)
        return norm(x), tuple(choices)

    def flops(self, batch: int, tokens: int) -> int:
        """Operations of the products of one call."""
        total = 0
        for index, block in enumerate(self.blocks):
            total += block.flops(batch, tokens)
            if index in self.reducing:
                dropped = tokens - 1 - kept_of(tokens)
                # The perceptron has no part in those that are dropped, and they are chosen by a product.
                total += batch * (2 * tokens * block.width - 4 * block.up.weight.numel() * dropped)
                tokens -= dropped
        return total


def reducing_block(
    block: EncoderBlock, x: torch.Tensor, places: torch.Tensor | None = None
) -> tuple[torch.Tensor, Choice]:
    """An encoder block that drops tokens in its middle.

    Args:
        block: The weights.
        x: Tokens (batch x tokens x width), the class token first.
        places: The tokens to keep, in place of those that are looked at most.

    Returns:
        The tokens that are left, and what was chosen.
    """
    query, key, value = block.heads_of(x)
    x = block.attend(x, query, key, value)
    paid, most = attention_paid(query, key).topk(kept_of(x.shape[1]))
    return block.perceive(keep(x, most if places is None else places)), (paid, most)


def attention_paid(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Attention that the class token pays each other token (batch x tokens - 1), mean over the heads.

    Attention in one kernel does not give it away, so this is computed a second time.
    """
    scores = query[:, :, :1] @ key.transpose(2, 3) / sqrt(HEAD)
    # In half precision many tokens would share a value, and which of them is kept would be chance.
    wide = torch.promote_types(scores.dtype, torch.float32)
    return scores.softmax(-1, dtype=wide).mean(1)[:, 0, 1:]


def keep(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The class token and the others at `places` (batch x kept), in this order."""
    chosen = x[:, 1:].gather(1, places.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
    return torch.cat((x[:, :1], chosen), 1)


def kept_of(tokens: int) -> int:
    """How many are kept of the tokens beside the class token."""
    return ceil(KEPT * (tokens - 1))
