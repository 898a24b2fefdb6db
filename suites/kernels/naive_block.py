"""Encoder block written formula by formula: a launch for each, and three for each head."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from suites.kernels.encoder import HEAD, norm

if TYPE_CHECKING:
    from suites.kernels.encoder import EncoderBlock, Linear


def naive_block(block: EncoderBlock, x: torch.Tensor) -> torch.Tensor:
    """Compute `block(x)` with a product for each head, separate biases and a softmax in parts.

    Args:
        block: The weights.
        x: Tokens (batch x tokens x width).
    """
    batch, tokens, width = x.shape
    rows = norm(x).flatten(0, 1)
    query, key, value = (heads_one_by_one(block, part, rows).view(-1, tokens, HEAD) for part in range(3))
    seen = attention_by_parts(query, key, value)
    side_by_side = seen.view(-1, batch, tokens, HEAD).permute(1, 2, 0, 3).reshape(-1, width)
    x = x.flatten(0, 1)
    x = x + _linear(block.merge, side_by_side)
    x = x + _linear(block.down, functional.gelu(_linear(block.up, norm(x))))
    return x.view(batch, tokens, width)


def heads_one_by_one(block: EncoderBlock, part: int, rows: torch.Tensor) -> torch.Tensor:
    """Return queries (part 0), keys (1) or values (2) of each head, by a small product and a sum for each.

    Args:
        block: The weights.
        part: Number of the part.
        rows: Tokens after the norm (rows x width).

    Returns:
        Heads x rows x columns of a head.
    """
    weights = block.project.weight.view(3, block.heads, HEAD, block.width)[part]
    biases = block.project.bias.view(3, block.heads, HEAD)[part]
    return torch.stack([rows @ weight.T + bias for weight, bias in zip(weights, biases, strict=True)])


def attention_by_parts(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Compute attention (heads x tokens x columns), with all scores in memory between the steps."""
    scores = torch.bmm(query, key.transpose(1, 2)) / sqrt(HEAD)
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return torch.bmm(powers / powers.sum(-1, keepdim=True), value)


def _linear(linear: Linear, x: torch.Tensor) -> torch.Tensor:
    return x @ linear.weight.T + linear.bias
