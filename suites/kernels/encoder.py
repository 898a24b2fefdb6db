"""Encoder block of a transformer as usually written: few launches, each with much work."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import torch
from torch.nn import functional

HEAD = 64
"""Columns of a head, as in ViT, BERT and GPT-2 of any size."""


@dataclass(frozen=True)
class Linear:
    """Matrix (outputs x inputs) with a bias."""

    weight: torch.Tensor
    bias: torch.Tensor

    @classmethod
    def random(cls, inputs: int, outputs: int, device: torch.device, dtype: torch.dtype) -> Linear:
        """Create weights that give outputs of variance near 1 for inputs of variance 1.

        The bias is as large as the product, so that a missing bias exceeds rounding errors.
        """
        weight = torch.randn(outputs, inputs, device=device) / sqrt(inputs)
        return cls(weight.to(dtype), torch.randn(outputs, device=device).to(dtype))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Apply in one launch: cuBLAS adds the bias when it writes the product."""
        return functional.linear(x, self.weight, self.bias)

    def to(self, dtype: torch.dtype) -> Linear:
        """Convert to another type."""
        return Linear(self.weight.to(dtype), self.bias.to(dtype))


@dataclass(frozen=True)
class EncoderBlock:
    """Attention and a perceptron with one hidden layer, each after a layer norm and added to its input.

    The layer norms have neither scale nor shift.
    """

    project: Linear
    """Projection to queries, keys and values of all heads: 3 x width rows, head after head in each."""
    merge: Linear
    up: Linear
    down: Linear

    @classmethod
    def random(
        cls, width: int, device: torch.device, dtype: torch.dtype = torch.float32, expansion: int = 4
    ) -> EncoderBlock:
        """Create a block of `width` columns, with `expansion` times as many in its hidden layer.

        Args:
            width: A multiple of `HEAD`.
            device: Device of the weights, such as `meta`.
            dtype: Type of the weights.
            expansion: Hidden columns over columns.
        """
        sizes = ((width, 3 * width), (width, width), (width, expansion * width), (expansion * width, width))
        return cls(*(Linear.random(*size, device, dtype) for size in sizes))

    @property
    def width(self) -> int:
        """Return the columns of a token."""
        return self.merge.weight.shape[0]

    @property
    def heads(self) -> int:
        """Return the number of heads."""
        return self.width // HEAD

    def to(self, dtype: torch.dtype) -> EncoderBlock:
        """Convert to another type."""
        return EncoderBlock(*(part.to(dtype) for part in (self.project, self.merge, self.up, self.down)))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Encode tokens (batch x tokens x width)."""
        return self.perceive(self.attend(x, *self.heads_of(x)))

    def heads_of(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return queries, keys and values (batch x heads x tokens x head) by one product."""
        projected = self.project(norm(x)).view(*x.shape[:2], 3, self.heads, HEAD)
        query, key, value = projected.permute(2, 0, 3, 1, 4).unbind()
        return query, key, value

    def attend(
        self, x: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        """Add the attention to the input."""
        seen = functional.scaled_dot_product_attention(query, key, value)
        return x + self.merge(seen.transpose(1, 2).flatten(2))

    def perceive(self, x: torch.Tensor) -> torch.Tensor:
        """Add the perceptron's output to the input."""
        return x + self.down(functional.gelu(self.up(norm(x))))

    def flops(self, batch: int, tokens: int) -> int:
        """Return the operations of the products of one call."""
        matrices = (self.project, self.merge, self.up, self.down)
        of_a_token = sum(2 * matrix.weight.numel() for matrix in matrices)
        return batch * tokens * (of_a_token + 4 * tokens * self.width)


def norm(x: torch.Tensor) -> torch.Tensor:
    """Return the layer norm of each token, without scale and shift."""
    return functional.layer_norm(x, x.shape[-1:])
