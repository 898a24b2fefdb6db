"""Modules of torch.nn: forward, backward, and both in one call, next to the same in float64."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from benchmarks.zoo.cases import add, close, tensors_in, widened

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from benchmarks.zoo.typed_operators import Honest

    Build: TypeAlias = Callable[[], nn.Module]
    Inputs: TypeAlias = tuple[torch.Tensor, ...]

GRADIENT = 0.05
"""Size of incoming gradients: those of weights, which are sums over a batch, are of the order of 1."""
SCALAR_GRADIENT = 10.0
"""That of a loss."""


def _normal(*shapes: tuple[int, ...]) -> Callable[[], Inputs]:
    return lambda: tuple(torch.randn(shape) for shape in shapes)


def _classes(rows: int, classes: int) -> Callable[[], Inputs]:
    return lambda: (torch.randn(rows, classes), torch.randint(classes, (rows,)))


def _tokens(*shape: int) -> Callable[[], Inputs]:
    return lambda: (torch.randint(1000, shape),)


def _distributions() -> Inputs:
    return torch.randn(256, 512).log_softmax(-1), torch.randn(256, 512).softmax(-1)


def _probabilities() -> Inputs:
    return torch.rand(512, 512) * 0.9 + 0.05, torch.rand(512, 512)


def _sequences() -> Inputs:
    return (
        torch.randn(64, 16, 32).log_softmax(-1),
        torch.randint(1, 32, (16, 20)),
        torch.full((16,), 64),
        torch.full((16,), 20),
    )


class _Attention(nn.Module):
    """Attention of a tensor to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(128, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output without the weights."""
        found: torch.Tensor = self.attention(x, x, x, need_weights=False)[0]
        return found


_IMAGE = (8, 16, 32, 32)
_ROWS = (512, 512)
_STEPS = (8, 32, 64)
MODULES: dict[str, tuple[Build, Callable[[], Inputs]]] = {
    "Linear": (partial(nn.Linear, 512, 512), _normal(_ROWS)),
    "Bilinear": (partial(nn.Bilinear, 16, 16, 32), _normal((128, 16), (128, 16))),
    "Conv1d": (partial(nn.Conv1d, 16, 32, 5, padding=2), _normal((8, 16, 512))),
    "Conv2d": (partial(nn.Conv2d, 16, 32, 3, padding=1), _normal(_IMAGE)),
    "Conv2d_depthwise": (partial(nn.Conv2d, 16, 16, 3, groups=16), _normal(_IMAGE)),
    "Conv3d": (partial(nn.Conv3d, 8, 8, 3, padding=1), _normal((2, 8, 12, 12, 12))),
    "ConvTranspose2d": (partial(nn.ConvTranspose2d, 16, 8, 2, stride=2), _normal(_IMAGE)),
    "MaxPool2d": (partial(nn.MaxPool2d, 2), _normal(_IMAGE)),
    "AvgPool2d": (partial(nn.AvgPool2d, 2), _normal(_IMAGE)),
    "AdaptiveAvgPool2d": (partial(nn.AdaptiveAvgPool2d, 5), _normal(_IMAGE)),
    "BatchNorm1d": (partial(nn.BatchNorm1d, 512), _normal(_ROWS)),
    "BatchNorm2d": (partial(nn.BatchNorm2d, 16), _normal(_IMAGE)),
    "GroupNorm": (partial(nn.GroupNorm, 4, 16), _normal(_IMAGE)),
    "InstanceNorm2d": (partial(nn.InstanceNorm2d, 16, affine=True), _normal(_IMAGE)),
    "LayerNorm": (partial(nn.LayerNorm, 512), _normal(_ROWS)),
    "RMSNorm": (partial(nn.RMSNorm, 512), _normal(_ROWS)),
    "PReLU": (partial(nn.PReLU, 16), _normal(_IMAGE)),
    "GELU": (nn.GELU, _normal(_ROWS)),
    "GLU": (nn.GLU, _normal(_ROWS)),
    "Softmax": (partial(nn.Softmax, -1), _normal(_ROWS)),
    "Embedding": (partial(nn.Embedding, 1000, 64), _tokens(2048)),
    "EmbeddingBag": (partial(nn.EmbeddingBag, 1000, 64), _tokens(256, 8)),
    "RNN": (partial(nn.RNN, 64, 64, batch_first=True), _normal(_STEPS)),
    "GRU": (partial(nn.GRU, 64, 64, batch_first=True), _normal(_STEPS)),
    "LSTM": (partial(nn.LSTM, 64, 64, batch_first=True), _normal(_STEPS)),
    "MultiheadAttention": (_Attention, _normal((8, 64, 128))),
    "TransformerEncoderLayer": (
        partial(nn.TransformerEncoderLayer, 128, 4, 256, dropout=0.0, batch_first=True),
        _normal((8, 64, 128)),
    ),
    "TransformerDecoderLayer": (
        partial(nn.TransformerDecoderLayer, 128, 4, 256, dropout=0.0, batch_first=True),
        _normal((8, 64, 128), (8, 48, 128)),
    ),
    "PixelShuffle": (partial(nn.PixelShuffle, 2), _normal(_IMAGE)),
    "Upsample": (partial(nn.Upsample, scale_factor=2, mode="bilinear"), _normal(_IMAGE)),
    "ReflectionPad2d": (partial(nn.ReflectionPad2d, 2), _normal(_IMAGE)),
    "Unfold": (partial(nn.Unfold, 3, padding=1), _normal((4, 8, 32, 32))),
    "CosineSimilarity": (nn.CosineSimilarity, _normal(_ROWS, _ROWS)),
    "MSELoss": (nn.MSELoss, _normal(_ROWS, _ROWS)),
    "SmoothL1Loss": (nn.SmoothL1Loss, _normal(_ROWS, _ROWS)),
    "CrossEntropyLoss": (nn.CrossEntropyLoss, _classes(512, 1000)),
    "KLDivLoss": (partial(nn.KLDivLoss, reduction="batchmean"), _distributions),
    "BCELoss": (nn.BCELoss, _probabilities),
    "CTCLoss": (nn.CTCLoss, _sequences),
    "TripletMarginLoss": (nn.TripletMarginLoss, _normal(_ROWS, _ROWS, _ROWS)),
}


def _output(module: nn.Module, inputs: Inputs) -> torch.Tensor:
    """Return the first tensor of a module's output."""
    return next(tensors_in(module(*inputs)))


def _prepared(name: str, device: torch.device) -> tuple[nn.Module, nn.Module, Inputs]:
    """Return a module, the same one in float64, and inputs."""
    build, inputs = MODULES[name]
    module = build().to(device)
    return module, deepcopy(module).double(), tuple(one.to(device) for one in inputs())


def _forward(name: str, device: torch.device) -> Honest:
    module, exact, inputs = _prepared(name, device)
    return close(
        lambda *inputs: _output(module, inputs),
        inputs,
        lambda *inputs: _output(exact, tuple(map(widened, inputs))),
    )


class _Graph:
    """A forward pass that waits for its backward pass."""

    def __init__(self, module: nn.Module, inputs: Inputs) -> None:
        leaves = [
            one.detach().requires_grad_() if at == 0 and one.is_floating_point() else one
            for at, one in enumerate(inputs)
        ]
        self.output = _output(module, tuple(leaves))
        self._leaves = [one for one in (*leaves, *module.parameters()) if one.requires_grad]

    def gradients(self, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the gradients of the first input and of the parameters."""
        return torch.autograd.grad(self.output, self._leaves, gradient, retain_graph=True)


def _gradient(output: torch.Tensor) -> torch.Tensor:
    if output.ndim:
        return GRADIENT * torch.randn_like(output.detach())
    return torch.full_like(output.detach(), SCALAR_GRADIENT)


def _backward(name: str, device: torch.device) -> Honest:
    module, exact, inputs = _prepared(name, device)
    graph, exact_graph = _Graph(module, inputs), _Graph(exact, tuple(map(widened, inputs)))
    return close(
        graph.gradients,
        (_gradient(graph.output),),
        lambda gradient: exact_graph.gradients(gradient.double()),
    )


def _both(name: str, device: torch.device) -> Honest:
    module, exact, inputs = _prepared(name, device)

    def call(gradient: torch.Tensor, *inputs: torch.Tensor) -> Any:
        return _Graph(module, inputs).gradients(gradient)

    def expected(gradient: torch.Tensor, *inputs: torch.Tensor) -> Any:
        return _Graph(exact, tuple(map(widened, inputs))).gradients(gradient.double())

    return close(call, (_gradient(_output(module, inputs)), *inputs), expected)


for _name in MODULES:
    for _way, _make in (("forward", _forward), ("backward", _backward), ("both", _both)):
        add(f"modules, {_way}", f"{_name}_{_way}", partial(_make, _name))
