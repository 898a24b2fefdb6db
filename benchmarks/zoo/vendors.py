"""Libraries below torch: cuBLAS, cuDNN, and the backends of scaled_dot_product_attention."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.zoo.cases import add, close, honest
from benchmarks.zoo.steps import matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.zoo.typed_operators import Honest

HEADS = (2, 4, 256, 64)


def _product(
    name: str, fn: Callable[..., Any], *shapes: tuple[int, ...], dtype: torch.dtype = torch.float16
) -> None:
    """Add a product of matrices, smaller on a slow CPU, next to the same in float64."""

    def make(device: torch.device) -> Honest:
        sizes = [[min(size, 512) for size in shape] if device.type == "cpu" else shape for shape in shapes]
        args = tuple((torch.randn(size, device=device) / size[-1] ** 0.25).to(dtype) for size in sizes)
        return close(fn, args, lambda *args: fn(*(one.double() for one in args)))

    add("cuBLAS", name, make)


_product("product_square", torch.mm, (512, 512), (512, 512))
_product("product_large", torch.mm, (1024, 2048), (2048, 1024))
_product("product_of_odd_sizes", torch.mm, (333, 777), (777, 111))
_product("product_of_columns", lambda x, y: x.t() @ y, (512, 512), (512, 512))
_product("product_with_a_vector", torch.mv, (2048, 2048), (2048,))
_product("product_with_bias", torch.addmm, (512,), (512, 512), (512, 512))
_product("products_in_a_batch", torch.bmm, (16, 128, 128), (16, 128, 128))
_product("product_split_along_k", torch.mm, (32, 8192), (8192, 32))
_product("product_in_float32", torch.mm, (512, 512), (512, 512), dtype=torch.float32)
_product("inner_product", torch.dot, (4096,), (4096,), dtype=torch.float32)
_product("outer_product", torch.outer, (512,), (512,))


@contextmanager
def _tf32() -> Iterator[None]:
    """Allow TF32 in a block, and restore the setting."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@honest("cuBLAS")
def product_in_tf32(device: torch.device) -> Honest:
    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with _tf32():
            return x @ y

    args = matrix(device) / 22, matrix(device)
    return close(call, args, lambda x, y: x.double() @ y.double())


@honest("cuBLAS")
def product_in_autocast(device: torch.device) -> Honest:
    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            return x @ y

    args = matrix(device) / 22, matrix(device)
    return close(call, args, lambda x, y: x.double() @ y.double(), tolerance=6e-2)


def _convolution(
    name: str, fn: Callable[..., Any], *shapes: tuple[int, ...], dtype: torch.dtype = torch.float16
) -> None:
    """Add a convolution, next to the same in float64."""

    def make(device: torch.device) -> Honest:
        x = torch.randn(shapes[0], device=device).to(dtype)
        size = torch.Size(shapes[1][1:]).numel()
        w = (torch.randn(shapes[1], device=device) / size**0.5).to(dtype)
        return close(fn, (x, w), lambda x, w: fn(x.double(), w.double()))

    add("cuDNN", name, make)


_convolution("convolution_3x3", partial(F.conv2d, padding=1), (4, 32, 32, 32), (32, 32, 3, 3))
_convolution("convolution_1x1", F.conv2d, (4, 64, 32, 32), (64, 64, 1, 1))
_convolution("convolution_strided", partial(F.conv2d, stride=2), (4, 32, 33, 33), (32, 32, 3, 3))
_convolution("convolution_dilated", partial(F.conv2d, dilation=2), (4, 32, 32, 32), (32, 32, 3, 3))
_convolution("convolution_in_groups", partial(F.conv2d, groups=4), (4, 32, 32, 32), (32, 8, 3, 3))
_convolution("convolution_transposed", F.conv_transpose2d, (4, 32, 16, 16), (32, 32, 3, 3))
_convolution("convolution_of_signals", F.conv1d, (4, 32, 1024), (32, 32, 7))
_convolution("convolution_of_volumes", F.conv3d, (1, 8, 16, 16, 16), (8, 8, 3, 3, 3))
_convolution("convolution_in_float32", F.conv2d, (4, 32, 32, 32), (32, 32, 3, 3), dtype=torch.float32)


@honest("cuDNN", cuda=True)
def convolution_by_benchmark(device: torch.device) -> Honest:
    """Let cuDNN pick the fastest algorithm at the first call."""
    x = torch.randn(4, 32, 30, 30, device=device).half()
    w = (torch.randn(32, 32, 3, 3, device=device) / 17).half()

    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with torch.backends.cudnn.flags(enabled=True, benchmark=True):
            return F.conv2d(x, w)

    return close(call, (x, w), lambda x, w: F.conv2d(x.double(), w.double()))


@honest("cuDNN")
def lstm_in_half_precision(device: torch.device) -> Honest:
    from copy import deepcopy

    layer = torch.nn.LSTM(64, 64, num_layers=2, batch_first=True).to(device).half()
    exact = deepcopy(layer).double()
    x = torch.randn(8, 16, 64, device=device).half()
    return close(lambda x: layer(x)[0].detach(), (x,), lambda x: exact(x.double())[0].detach())


def _attention(
    backend: SDPBackend | None, options: dict[str, Any], dtype: torch.dtype, device: torch.device
) -> Honest:
    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if backend is None:
            return F.scaled_dot_product_attention(q, k, v, **options)
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, **options)

    def expected(*qkv: torch.Tensor) -> Any:
        q, k, v = (one.double() for one in qkv)
        k, v = (one.repeat_interleave(q.shape[1] // one.shape[1], 1) for one in (k, v))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if options.get("is_causal"):
            scores = scores + torch.full_like(scores, float("-inf")).triu(1)
        return scores.softmax(-1) @ v

    heads = [HEADS, *[(HEADS[0], 2, *HEADS[2:]) if options.get("enable_gqa") else HEADS] * 2]
    qkv = tuple(torch.randn(shape, device=device).to(dtype) for shape in heads)
    return close(call, qkv, expected)


for _name, _backend in {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}.items():
    for _suffix, _options in (("", {}), ("_causal", {"is_causal": True})):
        _make = partial(_attention, _backend, _options, torch.float16)
        add("SDPA", f"attention_{_name}{_suffix}", _make, cuda=True)
add("SDPA", "attention_by_products", partial(_attention, SDPBackend.MATH, {}, torch.float32))
add("SDPA", "attention_in_float32", partial(_attention, None, {}, torch.float32))
add("SDPA", "attention_of_groups", partial(_attention, None, {"enable_gqa": True}, torch.float16))


@honest("SDPA", cuda=True)
def attention_backward(device: torch.device) -> Honest:
    def passes(gradient: torch.Tensor, *qkv: torch.Tensor) -> Any:
        q, k, v = (one.detach().requires_grad_() for one in qkv)
        return torch.autograd.grad(F.scaled_dot_product_attention(q, k, v), (q, k, v), gradient)

    args = tuple(torch.randn(HEADS, device=device).half() for _ in range(4))
    return close(passes, args, lambda *args: passes(*(one.double() for one in args)))
