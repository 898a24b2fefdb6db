"""Operations of Liger-Kernel: inputs, exact references and the arguments that they overwrite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn import functional as exact

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, COLUMNS = 8192, 4096
"""Shape of 128 MiB of float32 numbers, twice an L2."""
TOKENS, VOCABULARY, HIDDEN = 4096, 16384, 1024
HEADS, HEAD_DIM, SEQUENCES = 32, 128, 4
GROUPS = 8
EPSILON = 1e-6


class Operation(NamedTuple):
    """An operation of `liger_kernel.transformers.functional`."""

    arguments: Callable[[torch.device], tuple[Any, ...]]
    reference: Callable[..., Any]
    differentiable: tuple[int, ...]
    """Positions of the arguments that get gradients."""
    results: int = 1
    options: tuple[Any, ...] = ()
    """Further arguments of the kernel alone."""
    forward_writes: tuple[int, ...] = ()
    """Positions of the arguments that the forward pass overwrites."""
    backward_writes: tuple[int, ...] = ()
    """Positions of the arguments that the backward pass overwrites."""
    overwrites_gradient: bool = False
    """True if the backward pass writes its result over the incoming gradient."""
    gradient_scale: float = 0.0
    """Incoming gradient of a loss: that of a mean over tokens would be below any tolerance."""

    def forward(self, functional: Any, name: str) -> Callable[..., Any]:
        """Return the kernel with its options."""
        kernel = getattr(functional, f"liger_{name}")
        return lambda *arguments: kernel(*arguments, *self.options)

    def gradient(self, arguments: tuple[Any, ...]) -> Any:
        """Return an incoming gradient: random, or the scale for the scalar of a loss."""
        x = arguments[0]
        if self.gradient_scale:
            return torch.full((), self.gradient_scale, device=x.device)
        if self.results == 1:
            return torch.randn_like(x)
        return tuple(torch.randn_like(x) for _ in range(self.results))


def with_gradients(fn: Callable[..., Any], positions: tuple[int, ...]) -> Callable[..., Any]:
    """Return forward and backward pass as one function of the incoming gradient and the arguments."""

    def gradients(gradient: torch.Tensor | tuple[torch.Tensor, ...], *arguments: Any) -> Any:
        # Detached tensors share memory with the arguments, so this launches nothing.
        inputs = [
            argument.detach().requires_grad_() if at in positions else argument
            for at, argument in enumerate(arguments)
        ]
        return torch.autograd.grad(fn(*inputs), [inputs[at] for at in positions], gradient)

    return gradients


def in_float64(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that converts floating tensors to float64 before it calls `fn`."""

    def converted(*arguments: Any) -> Any:
        return fn(*map(_widened, arguments))

    return converted


def _widened(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_widened, value))
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _matrices(
    count: int, shape: tuple[int, int] = (ROWS, COLUMNS)
) -> Callable[[torch.device], tuple[torch.Tensor, ...]]:
    return lambda device: tuple(torch.randn(shape, device=device) for _ in range(count))


def _matrices_and_rows(matrices: int, rows: int) -> Callable[[torch.device], Any]:
    def make(device: torch.device) -> tuple[torch.Tensor, ...]:
        vectors = (torch.randn(COLUMNS, device=device) for _ in range(rows))
        return (*_matrices(matrices)(device), *vectors)

    return make


def _rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return exact.rms_norm(x, x.shape[-1:], weight, EPSILON)


def _fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    return _rms_norm(x + residual, weight), x + residual


def _channels(device: torch.device) -> tuple[torch.Tensor, ...]:
    channels = 4 * GROUPS
    x = torch.randn(ROWS // channels, channels, COLUMNS, device=device)
    return (x, *torch.randn(2, channels, device=device))


def _heads(device: torch.device) -> tuple[torch.Tensor, ...]:
    """Return queries and keys as a projection leaves them, heads after positions, and their angles."""
    length = ROWS // SEQUENCES
    queries, keys = (
        torch.randn(SEQUENCES, length, HEADS, HEAD_DIM, device=device).transpose(1, 2) for _ in range(2)
    )
    half = torch.arange(HEAD_DIM // 2, device=device)
    angles = torch.outer(torch.arange(length, device=device), 10000.0 ** (-2 * half / HEAD_DIM)).repeat(1, 2)
    return queries, keys, angles.cos()[None], angles.sin()[None]


def _rope(
    queries: torch.Tensor, keys: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    def rotated(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * cos[:, None] + torch.cat((-second, first), -1) * sin[:, None]

    return rotated(queries), rotated(keys)


def _distributions(device: torch.device) -> tuple[torch.Tensor, ...]:
    predicted, target = _matrices(2, (TOKENS, VOCABULARY // 2))(device)
    return predicted.log_softmax(-1), target.softmax(-1)


def _logits(device: torch.device) -> tuple[torch.Tensor, ...]:
    return torch.randn(TOKENS, VOCABULARY, device=device), _targets(device, TOKENS, VOCABULARY)


def _targets(device: torch.device, tokens: int, vocabulary: int) -> torch.Tensor:
    return torch.randint(vocabulary, (tokens,), device=device)


def _head(device: torch.device) -> tuple[torch.Tensor, ...]:
    tokens, vocabulary = TOKENS // 4, VOCABULARY // 2
    x = torch.randn(tokens, HIDDEN, device=device) / HIDDEN**0.5
    return (
        x,
        torch.randn(vocabulary, HIDDEN, device=device),
        _targets(device, tokens, vocabulary),
    )


def _linear_cross_entropy(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return exact.cross_entropy(x @ weight.T, target)


OPERATIONS = {
    "rms_norm": Operation(
        _matrices_and_rows(1, 1), _rms_norm, (0, 1), options=(EPSILON,), overwrites_gradient=True
    ),
    "layer_norm": Operation(
        _matrices_and_rows(1, 2),
        lambda x, weight, bias: exact.layer_norm(x, x.shape[-1:], weight, bias, EPSILON),
        (0, 1, 2),
        options=(EPSILON,),
    ),
    "group_norm": Operation(
        _channels,
        lambda x, weight, bias: exact.group_norm(x, GROUPS, weight, bias, EPSILON),
        (0, 1, 2),
        options=(4 * GROUPS, GROUPS, EPSILON),
    ),
    "fused_add_rms_norm": Operation(
        _matrices_and_rows(2, 1),
        _fused_add_rms_norm,
        (0, 1, 2),
        results=2,
        options=(EPSILON,),
        overwrites_gradient=True,
    ),
    "softmax": Operation(_matrices(1), lambda x: x.softmax(-1), (0,)),
    "relu_squared": Operation(_matrices(1), lambda x: x.relu().square(), (0,)),
    "swiglu": Operation(_matrices(2), lambda a, b: exact.silu(a) * b, (0, 1), backward_writes=(0, 1)),
    "geglu": Operation(
        _matrices(2),
        lambda a, b: exact.gelu(a, approximate="tanh") * b,
        (0, 1),
        backward_writes=(0, 1),
    ),
    "rope": Operation(_heads, _rope, (0, 1), results=2, forward_writes=(0, 1), overwrites_gradient=True),
    "kl_div": Operation(
        _distributions,
        lambda x, target: exact.kl_div(x, target, reduction="batchmean"),
        (0,),
        options=(True, True, "batchmean"),
        gradient_scale=TOKENS,
    ),
    "cross_entropy": Operation(
        _logits, exact.cross_entropy, (0,), backward_writes=(0,), gradient_scale=TOKENS
    ),
    "fused_linear_cross_entropy": Operation(_head, _linear_cross_entropy, (0, 1), gradient_scale=TOKENS // 4),
}
"""Operations by name."""
