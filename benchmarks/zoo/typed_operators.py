"""Honest callables: operators of torch, and other work that must never be accused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 512
"""Rows and columns of most inputs."""


@dataclass(frozen=True)
class Honest:
    """A callable with its arguments."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    expected: Callable[..., Any] | None = None
    """Reference; None if the output is random, so that the callable is only timed."""
    mutates: tuple[int, ...] = ()
    rtol: float | None = None
    atol: float | None = None


OPERATORS: dict[str, Callable[[torch.device, torch.dtype], Honest]] = {}

UNARY = """
abs neg exp exp2 expm1 sin cos tanh sigmoid erf square ceil floor round trunc sign relu reciprocal isfinite
sgn nan_to_num tril triu
"""
POSITIVE = "sqrt rsqrt log log2 log1p log10"
ACTIVATIONS = """
gelu silu elu selu celu softplus hardswish mish logsigmoid leaky_relu relu6 hardtanh softsign tanhshrink
hardsigmoid
"""
REDUCTIONS = "sum mean amax amin argmax std var count_nonzero"
ALONG_ROWS = """
softmax log_softmax cumsum logsumexp cummax sum argmin sort argsort
"""
BINARY = "add sub mul div maximum minimum atan2 hypot copysign eq lt logical_and remainder"
PRODUCTS = "mm matmul"
LOSSES = "mse_loss l1_loss huber_loss smooth_l1_loss"
RANDOM = "rand_like randn_like bernoulli"
IN_PLACE = "add_ sub_ mul_ copy_"
IN_PLACE_ALONE = "relu_ clamp_min_ zero_ neg_ tanh_"


def matrix(device: torch.device, dtype: torch.dtype, rows: int = SIZE, columns: int = SIZE) -> torch.Tensor:
    """Return normal random numbers."""
    return torch.randn(rows, columns, device=device).to(dtype)


def add(name: str) -> Callable[[Any], Any]:
    """Add a function that makes a callable to the list."""

    def keep(make: Any) -> Any:
        OPERATORS[name] = make
        return make

    return keep


def operator(name: str, *makers: Callable[..., torch.Tensor], owner: Any = torch, **options: Any) -> None:
    """Add an operator whose reference is itself."""
    fn = getattr(owner, name)

    def make(device: torch.device, dtype: torch.dtype) -> Honest:
        def call(*args: torch.Tensor) -> Any:
            return fn(*args, **options)

        return Honest(call, tuple(maker(device, dtype) for maker in makers), call)

    OPERATORS[f"{name}_rows" if options else name] = make


def positive(device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Return positive random numbers."""
    return matrix(device, dtype).abs() + 0.1


def probability(device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers between 0 and 1."""
    return torch.rand(SIZE, SIZE, device=device).to(dtype)


for _name in UNARY.split():
    operator(_name, matrix)
for _name in POSITIVE.split():
    operator(_name, positive)
for _name in ACTIVATIONS.split():
    operator(_name, matrix, owner=F)
for _name in REDUCTIONS.split():
    operator(_name, matrix)
for _name in ALONG_ROWS.split():
    operator(_name, matrix, dim=-1)
for _name in BINARY.split():
    operator(_name, matrix, positive)
for _name in PRODUCTS.split():
    operator(_name, matrix, matrix)
for _name in LOSSES.split():
    operator(_name, matrix, matrix, owner=F)


def _random(name: str) -> None:
    fn = getattr(torch, name)
    OPERATORS[name] = lambda device, dtype: Honest(fn, (probability(device, dtype),))


for _name in RANDOM.split():
    _random(_name)


def _in_place(name: str, *, alone: bool) -> None:
    fn = getattr(torch.Tensor, name)

    def make(device: torch.device, dtype: torch.dtype) -> Honest:
        more = (0.5,) if name == "clamp_min_" else () if alone else (matrix(device, dtype),)

        def call(x: torch.Tensor, *args: Any) -> None:
            fn(x, *args)

        return Honest(call, (positive(device, dtype) * 0.5, *more), call, mutates=(0,))

    OPERATORS[name] = make


for _name in IN_PLACE.split():
    _in_place(_name, alone=False)
for _name in IN_PLACE_ALONE.split():
    _in_place(_name, alone=True)


@add("addmm")
def addmm(device: torch.device, dtype: torch.dtype) -> Honest:
    args = tuple(matrix(device, dtype) for _ in range(3))
    return Honest(torch.addmm, args, torch.addmm)


@add("bmm")
def bmm(device: torch.device, dtype: torch.dtype) -> Honest:
    args = tuple(matrix(device, dtype).view(8, 64, SIZE).contiguous() for _ in range(2))
    return Honest(lambda x, y: torch.bmm(x, y.mT), args, lambda x, y: torch.bmm(x, y.mT))


@add("linear")
def linear(device: torch.device, dtype: torch.dtype) -> Honest:
    args = (matrix(device, dtype), matrix(device, dtype), matrix(device, dtype)[0].clone())
    return Honest(F.linear, args, F.linear)


@add("einsum")
def einsum(device: torch.device, dtype: torch.dtype) -> Honest:
    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.einsum("ij,jk->ki", x, y)

    return Honest(call, (matrix(device, dtype), matrix(device, dtype)), call)


@add("attention")
def attention(device: torch.device, dtype: torch.dtype) -> Honest:
    args = tuple(matrix(device, dtype, 8 * 128, 64).view(1, 8, 128, 64) for _ in range(3))
    return Honest(F.scaled_dot_product_attention, args, F.scaled_dot_product_attention)


@add("conv2d")
def conv2d(device: torch.device, dtype: torch.dtype) -> Honest:
    image = torch.randn(4, 16, 64, 64, device=device).to(dtype)
    weight = torch.randn(32, 16, 3, 3, device=device).to(dtype)
    return Honest(F.conv2d, (image, weight), F.conv2d)


@add("conv1d")
def conv1d(device: torch.device, dtype: torch.dtype) -> Honest:
    signal = torch.randn(4, 16, 1024, device=device).to(dtype)
    weight = torch.randn(32, 16, 5, device=device).to(dtype)
    return Honest(F.conv1d, (signal, weight), F.conv1d)


@add("max_pool2d")
def max_pool2d(device: torch.device, dtype: torch.dtype) -> Honest:
    image = torch.randn(4, 16, 64, 64, device=device).to(dtype)
    return Honest(lambda x: F.max_pool2d(x, 2), (image,), lambda x: F.max_pool2d(x, 2))


@add("layer_norm")
def layer_norm(device: torch.device, dtype: torch.dtype) -> Honest:
    def call(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (SIZE,))

    return Honest(call, (matrix(device, dtype),), call)


@add("rms_norm")
def rms_norm(device: torch.device, dtype: torch.dtype) -> Honest:
    def call(x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (SIZE,))

    return Honest(call, (matrix(device, dtype),), call)


@add("embedding")
def embedding(device: torch.device, dtype: torch.dtype) -> Honest:
    at = torch.randint(SIZE, (4096,), device=device)
    return Honest(F.embedding, (at, matrix(device, dtype)), F.embedding)


@add("gather")
def gather(device: torch.device, dtype: torch.dtype) -> Honest:
    at = torch.randint(SIZE, (SIZE, SIZE), device=device)
    return Honest(lambda x, at: x.gather(1, at), (matrix(device, dtype), at), lambda x, at: x.gather(1, at))


@add("scatter_add")
def scatter_add(device: torch.device, dtype: torch.dtype) -> Honest:
    at = torch.randint(SIZE, (SIZE, SIZE), device=device)

    def call(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x).scatter_add(1, at, x)

    return Honest(call, (matrix(device, dtype), at), call, rtol=0.1, atol=0.1)


@add("index_add")
def index_add(device: torch.device, dtype: torch.dtype) -> Honest:
    at = torch.randint(SIZE, (SIZE,), device=device)

    def call(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x).index_add(0, at, x)

    return Honest(call, (matrix(device, dtype), at), call, rtol=0.1, atol=0.1)


@add("cat")
def cat(device: torch.device, dtype: torch.dtype) -> Honest:
    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat((x, y), 1)

    return Honest(call, (matrix(device, dtype), matrix(device, dtype)), call)


@add("transpose")
def transpose(device: torch.device, dtype: torch.dtype) -> Honest:
    return Honest(lambda x: x.t().contiguous(), (matrix(device, dtype),), lambda x: x.t().contiguous())


@add("where")
def where(device: torch.device, dtype: torch.dtype) -> Honest:
    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(x > y, x, y)

    return Honest(call, (matrix(device, dtype), matrix(device, dtype)), call)


@add("topk")
def topk(device: torch.device, dtype: torch.dtype) -> Honest:
    return Honest(lambda x: torch.topk(x, 8)[0], (matrix(device, dtype),), lambda x: torch.topk(x, 8)[0])


@add("lerp")
def lerp(device: torch.device, dtype: torch.dtype) -> Honest:
    args = tuple(matrix(device, dtype) for _ in range(3))
    return Honest(torch.lerp, args, torch.lerp)


@add("addcmul")
def addcmul(device: torch.device, dtype: torch.dtype) -> Honest:
    args = tuple(matrix(device, dtype) for _ in range(3))
    return Honest(torch.addcmul, args, torch.addcmul)


@add("roll_and_flip")
def roll_and_flip(device: torch.device, dtype: torch.dtype) -> Honest:
    return Honest(lambda x: x.roll(3).flip(0), (matrix(device, dtype),), lambda x: x.roll(3).flip(0))


@add("nonzero")
def nonzero(device: torch.device, dtype: torch.dtype) -> Honest:
    """Wait for the GPU, since the size of the output depends on values."""
    return Honest(torch.nonzero, (matrix(device, dtype).relu(),), torch.nonzero)


@add("masked_select")
def masked_select(device: torch.device, dtype: torch.dtype) -> Honest:
    return Honest(lambda x: x[x > 0], (matrix(device, dtype),), lambda x: x[x > 0])


@add("item")
def item(device: torch.device, dtype: torch.dtype) -> Honest:
    """Wait for a value in the middle."""

    def call(x: torch.Tensor) -> torch.Tensor:
        return x * x.amax().item()

    return Honest(call, (matrix(device, dtype),), call)


@add("dropout")
def dropout(device: torch.device, dtype: torch.dtype) -> Honest:
    return Honest(F.dropout, (matrix(device, dtype),))


@add("randperm")
def randperm(device: torch.device, dtype: torch.dtype) -> Honest:
    return Honest(lambda: torch.randperm(SIZE * SIZE, device=device), ())


@add("normal_")
def normal_(device: torch.device, dtype: torch.dtype) -> Honest:
    return Honest(lambda x: x.normal_(), (matrix(device, dtype),), mutates=(0,))


@add("multinomial")
def multinomial(device: torch.device, dtype: torch.dtype) -> Honest:
    return Honest(lambda x: torch.multinomial(x, 4), (probability(device, dtype),))
