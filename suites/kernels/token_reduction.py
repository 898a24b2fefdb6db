"""Vision transformer that drops tokens with little attention: fewer operations, more launches.

Tokens are chosen as in EViT (Liang et al., 2022, "Not All Patches are What You Need"): between the attention
and the perceptron of some blocks, by the class token's attention, averaged over the heads. Dropped tokens
are not merged into one here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import TypeAlias

import torch

from suites.kernels.encoder import HEAD, EncoderBlock, norm

PATCH = 16
WIDTH, DEPTH = 768, 12
"""Size of ViT-B/16."""
REDUCING = (3, 6, 9)
"""Blocks that drop tokens, counted from 0."""
KEPT = 0.5
"""Share of the tokens, without the class token, that each of these blocks keeps."""

Choice: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Attention of the kept tokens (batch x kept, float32), largest first, and their places among the tokens
after the class token."""


def tokens_of(size: int) -> int:
    """Return the number of patches of a square image of `size` pixels a side, plus the class token."""
    return (size // PATCH) ** 2 + 1


@dataclass(frozen=True)
class Encoder:
    """Stack of blocks, some of which drop tokens."""

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
        """Create a stack with random weights on a device, such as `meta`."""
        return cls(tuple(EncoderBlock.random(width, device, dtype) for _ in range(depth)), reducing)

    def to(self, dtype: torch.dtype) -> Encoder:
        """Convert to another type."""
        return replace(self, blocks=tuple(block.to(dtype) for block in self.blocks))

    def __call__(
        self, x: torch.Tensor, places: tuple[torch.Tensor, ...] = ()
    ) -> tuple[torch.Tensor, tuple[Choice, ...]]:
        """Encode tokens (batch x tokens x width), the class token first.

        Args:
            x: The tokens.
            places: Tokens to keep instead of those with most attention, for each block that drops some.

        Returns:
            The remaining tokens, and the choice of each block that drops some.
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
        """Return the operations of the products of one call."""
        total = 0
        for index, block in enumerate(self.blocks):
            total += block.flops(batch, tokens)
            if index in self.reducing:
                dropped = tokens - 1 - kept_of(tokens)
                # The perceptron skips dropped tokens, and choosing them takes a product.
                total += batch * (2 * tokens * block.width - 4 * block.up.weight.numel() * dropped)
                tokens -= dropped
        return total


def reducing_block(
    block: EncoderBlock, x: torch.Tensor, places: torch.Tensor | None = None
) -> tuple[torch.Tensor, Choice]:
    """Apply an encoder block that drops tokens in its middle.

    Args:
        block: The weights.
        x: Tokens (batch x tokens x width), the class token first.
        places: Tokens to keep instead of those with most attention.

    Returns:
        The remaining tokens, and the choice.
    """
    query, key, value = block.heads_of(x)
    x = block.attend(x, query, key, value)
    paid, most = attention_paid(query, key).topk(kept_of(x.shape[1]))
    return block.perceive(keep(x, most if places is None else places)), (paid, most)


def attention_paid(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Return the class token's attention to each other token (batch x tokens - 1), averaged over the heads.

    Attention in one kernel does not return it, so it is computed again.
    """
    scores = query[:, :, :1] @ key.transpose(2, 3) / sqrt(HEAD)
    # In half precision many tokens would share a value, and chance would choose among them.
    wide = torch.promote_types(scores.dtype, torch.float32)
    return scores.softmax(-1, dtype=wide).mean(1)[:, 0, 1:]


def keep(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return the class token, then the tokens at `places` (batch x kept)."""
    chosen = x[:, 1:].gather(1, places.unsqueeze(-1).expand(-1, -1, x.shape[-1]))
    return torch.cat((x[:, :1], chosen), 1)


def kept_of(tokens: int) -> int:
    """Return the number of tokens kept, without the class token."""
    return ceil(KEPT * (tokens - 1))
