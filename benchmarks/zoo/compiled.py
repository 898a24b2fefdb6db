"""Code that is compiled on the spot: torch.compile in its modes, FlexAttention, Triton, CUDA C++."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.cases import add, close, honest
from benchmarks.zoo.steps import matrix

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.zoo.typed_operators import Honest

COMPILE = "torch.compile"
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
HEADS = (2, 4, 256, 64)


def compiled(fn: Callable[..., Any], device: torch.device, mode: str = "default", **options: Any) -> Any:
    """Compile a function; on the CPU without a compiler for C++."""
    if device.type == "cpu":
        return torch.compile(fn, backend="eager", **options)
    return torch.compile(fn, mode=mode, **options)


def _chain(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).relu().sum(-1)


def _norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(F.gelu(x), x.shape[-1:])


def _two(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.softmax(-1), x.amax(-1)


def _broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos()


def _product(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.mT / 512).tanh()


FUNCTIONS = {"chain": _chain, "norm": _norm, "two_outputs": _two}
"""Compiled in all modes."""


def _in_mode(fn: Callable[..., Any], mode: str, device: torch.device) -> Honest:
    return close(compiled(fn, device, mode), (matrix(device),), lambda x: fn(x.double()), tolerance=1e-3)


for _mode in MODES:
    for _name, _fn in FUNCTIONS.items():
        add(COMPILE, f"compiled_{_name}_{_mode}", partial(_in_mode, _fn, _mode), cuda=_mode != MODES[0])
for _name, _fn in {"product": _product, "in_two_graphs": _broken}.items():
    for _mode in MODES[:2]:
        add(COMPILE, f"compiled_{_name}_{_mode}", partial(_in_mode, _fn, _mode), cuda=_mode != MODES[0])


@honest(COMPILE)
def compiled_in_place(device: torch.device) -> Honest:
    fn = compiled(lambda x: x.mul_(0.5).add_(1), device)

    def call(x: torch.Tensor) -> None:
        fn(x)

    return close(call, (matrix(device),), lambda x: x / 2 + 1, mutates=(0,), tolerance=1e-5)


@honest(COMPILE)
def compiled_backward(device: torch.device) -> Honest:
    fn = compiled(lambda x: x.tanh() * x, device)

    def call(x: torch.Tensor) -> Any:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(fn(x).sum(), x)[0]

    def expected(x: torch.Tensor) -> torch.Tensor:
        inner = x.double().tanh()
        return inner + x.double() * (1 - inner * inner)

    return close(call, (matrix(device),), expected, tolerance=1e-4)


@honest(COMPILE)
def compiled_dynamic(device: torch.device) -> Honest:
    fn = compiled(_norm, device, dynamic=True)
    return close(fn, (matrix(device),), lambda x: _norm(x.double()), tolerance=1e-3)


@honest(COMPILE)
def compiled_module(device: torch.device) -> Honest:
    layers = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU()).to(device)
    weight, bias = (one.detach().double() for one in layers.parameters())
    fn = compiled(layers, device)
    return close(fn, (matrix(device),), lambda x: F.gelu(x.double() @ weight.T + bias))


def _queries(device: torch.device, count: int = 3) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(HEADS, device=device, dtype=torch.float16) for _ in range(count))


def _attention(bias: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    scores = q.double() @ k.double().mT / q.shape[-1] ** 0.5 + bias
    return scores.softmax(-1) @ v.double()


@honest("FlexAttention", cuda=True)
def flex_attention_plain(device: torch.device) -> Honest:
    from torch.nn.attention.flex_attention import flex_attention

    zero = torch.zeros((), device=device)
    fn = compiled(flex_attention, device)
    return close(fn, _queries(device), partial(_attention, zero))


@honest("FlexAttention", cuda=True)
def flex_attention_relative(device: torch.device) -> Honest:
    from torch.nn.attention.flex_attention import flex_attention

    def relative(score: Any, _: Any, __: Any, q_at: Any, k_at: Any) -> Any:
        return score + (q_at - k_at) * 0.01

    at = torch.arange(HEADS[2], device=device)
    bias = (at[:, None] - at) * 0.01
    fn = compiled(partial(flex_attention, score_mod=relative), device)
    return close(fn, _queries(device), partial(_attention, bias))


@honest("FlexAttention", cuda=True)
def flex_attention_causal(device: torch.device) -> Honest:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def causal(_: Any, __: Any, q_at: Any, k_at: Any) -> Any:
        return q_at >= k_at

    length = HEADS[2]
    mask = create_block_mask(causal, None, None, length, length, device="cuda")
    bias = torch.full((length, length), float("-inf"), device=device).triu(1)
    fn = compiled(partial(flex_attention, block_mask=mask), device)
    return close(fn, _queries(device), partial(_attention, bias))


@honest("Triton", cuda=True)
def triton_softmax(device: torch.device) -> Honest:
    from suites.kernels.softmax import softmax_triton

    return close(softmax_triton, (matrix(device),), lambda x: x.double().softmax(-1), tolerance=1e-4)


@honest("Triton", cuda=True)
def triton_square(device: torch.device) -> Honest:
    from suites.kernels.square import square_triton

    return close(square_triton, (matrix(device),), torch.square, tolerance=1e-6)


@honest("Triton", cuda=True)
def triton_layer_norm(device: torch.device) -> Honest:
    from suites.kernels.layer_norm import layer_norm_triton

    args = matrix(device), torch.rand(512, device=device), torch.rand(512, device=device)
    return close(
        layer_norm_triton,
        args,
        lambda x, w, b: F.layer_norm(x.double(), (512,), w.double(), b.double()),
        tolerance=1e-3,
    )


@honest("CUDA C++", cuda=True)
def extension_in_place(device: torch.device) -> Honest:
    from suites.kernels.extension import add_in_place

    def call(x: torch.Tensor, y: torch.Tensor) -> None:
        add_in_place(x, y, 0.5)

    _build(lambda: call(matrix(device), matrix(device)))
    args = matrix(device), matrix(device)
    return close(call, args, lambda x, y: x + 0.5 * y, mutates=(0,), tolerance=1e-5)


_DECLARATION = "torch::Tensor zoo_square(const torch::Tensor& x);"
_SOURCE = """
#include <torch/types.h>

torch::Tensor zoo_square(const torch::Tensor& x) { return x * x; }
"""


@honest("CUDA C++", cuda=True)
def extension_of_operators(device: torch.device) -> Honest:
    """Call torch's operators from C++."""
    from suites.kernels.inline import compiled as built

    square = _build(lambda: built(_DECLARATION, _SOURCE))
    return close(square, (matrix(device),), torch.square, tolerance=1e-6)


def _build(build: Callable[[], Any]) -> Any:
    """Build an extension.

    Raises:
        ImportError: It cannot be built: nvcc or ninja is missing.
    """
    try:
        return build()
    except (OSError, RuntimeError) as error:
        raise ImportError(f"no extension was built: {error}") from None
