"""A gallery of other people's kernels, each checked, timed, profiled and traced.

A test is skipped if its package is missing. The trace measures the same call independently: the page
[works with](../docs/reference/works_with.md) compares both times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn import functional

from suites.kernels.encoder import EncoderBlock
from suites.kernels.liger import OPERATIONS, in_float64, with_gradients
from suites.libraries import library
from suites.products import BFLOAT16_RTOL, accumulation_error, exact_product, matrices

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf import Gpuperf

SUM_ERROR = 1e-4
"""Tolerance of float32 results: sums of up to 16,384 rounded numbers of the order of 1, fast exponentials."""

operations = pytest.mark.parametrize("name", OPERATIONS)


def measure(gpuperf: Gpuperf, fn: Callable[..., Any], *arguments: Any, **checked: Any) -> None:
    """Check, time and profile a call, and trace it."""
    gpuperf(fn, *arguments, **checked)
    gpuperf.trace(fn, *arguments)


@operations
def test_liger_forward(gpuperf: Gpuperf, name: str) -> None:
    functions = library(gpuperf, "liger_kernel.transformers.functional")
    torch.manual_seed(0)
    operation = OPERATIONS[name]
    measure(
        gpuperf,
        operation.forward(functions, name),
        *operation.arguments(gpuperf.device),
        expected=in_float64(operation.reference),
        mutates=operation.forward_writes,
        rtol=SUM_ERROR,
        atol=SUM_ERROR,
    )


@operations
def test_liger_backward(gpuperf: Gpuperf, name: str) -> None:
    """Run the forward and the backward pass."""
    functions = library(gpuperf, "liger_kernel.transformers.functional")
    torch.manual_seed(0)
    operation = OPERATIONS[name]
    arguments = operation.arguments(gpuperf.device)
    gradient = operation.gradient(arguments)
    written = {*operation.forward_writes, *operation.backward_writes}
    measure(
        gpuperf,
        with_gradients(operation.forward(functions, name), operation.differentiable),
        gradient,
        *arguments,
        expected=in_float64(with_gradients(operation.reference, operation.differentiable)),
        mutates=(*(at + 1 for at in sorted(written)), *((0,) if operation.overwrites_gradient else ())),
        rtol=SUM_ERROR,
        atol=SUM_ERROR,
    )


ATTENTION = (4, 2048, 8, 128)
"""Sequences, positions, heads and columns of a head, as flash-linear-attention orders them."""


def heads(gpuperf: Gpuperf) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return tuple(torch.randn(ATTENTION, device=gpuperf.device, dtype=torch.bfloat16) for _ in range(3))


def decayed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    """Return linear attention with the logarithm of the decay at each position and head, in float64."""
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    total = decay.double().cumsum(1).transpose(1, 2)
    distance = (total[..., :, None] - total[..., None, :]).tril()
    scores = (q @ k.mT) * distance.exp() * q.shape[-1] ** -0.5
    return (scores.tril() @ v).transpose(1, 2)


def retained(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    exponents = -5.0 - torch.arange(q.shape[2], device=q.device, dtype=torch.float64)
    return decayed(q, k, v, torch.log1p(-exponents.exp2()).expand(q.shape[:3]))


def test_fla_linear_attention(gpuperf: Gpuperf) -> None:
    fla = library(gpuperf, "fla.ops.linear_attn")
    measure(
        gpuperf,
        lambda q, k, v: fla.chunk_linear_attn(q, k, v, normalize=False)[0],
        *heads(gpuperf),
        expected=lambda q, k, v: decayed(q, k, v, q.new_zeros(q.shape[:3])),
        **LINEAR,
    )


def test_fla_retention(gpuperf: Gpuperf) -> None:
    fla = library(gpuperf, "fla.ops.retention")
    measure(
        gpuperf, lambda q, k, v: fla.chunk_retention(q, k, v)[0], *heads(gpuperf), expected=retained, **LINEAR
    )


def test_fla_simple_gla(gpuperf: Gpuperf) -> None:
    fla = library(gpuperf, "fla.ops.simple_gla")
    q, k, v = heads(gpuperf)
    decay = functional.logsigmoid(torch.randn(ATTENTION[:3], device=gpuperf.device))
    measure(
        gpuperf,
        lambda q, k, v, g: fla.chunk_simple_gla(q, k, v, g)[0],
        q,
        k,
        v,
        decay,
        expected=decayed,
        **LINEAR,
    )


LINEAR: dict[str, float] = {"rtol": 2**-6, "atol": 0.25}
"""Products of bfloat16, whose sums over up to 2048 positions have elements of the order of 30."""


def test_helion_softmax(gpuperf: Gpuperf) -> None:
    kernels = library(gpuperf, "suites.kernels.in_helion")
    x = matrices(gpuperf, (8192, 4096), dtype=torch.float32)[0]
    measure(
        gpuperf, kernels.softmax_helion, x, expected=lambda x: x.double().softmax(-1), rtol=1e-5, atol=1e-7
    )


def test_helion_matmul(gpuperf: Gpuperf) -> None:
    multiply(gpuperf, library(gpuperf, "suites.kernels.in_helion").matmul_helion)


def multiply(gpuperf: Gpuperf, product: Callable[..., torch.Tensor]) -> None:
    n = 2048
    a, b = matrices(gpuperf, (n, n), (n, n), dtype=torch.bfloat16)
    measure(
        gpuperf,
        product,
        a,
        b,
        expected=exact_product,
        rtol=BFLOAT16_RTOL,
        atol=accumulation_error(n),
        flops=2 * n**3,
    )


def test_quack_rmsnorm(gpuperf: Gpuperf) -> None:
    quack = library(gpuperf, "quack.rmsnorm")
    x, weight = matrices(gpuperf, (16384, 4096), (1, 4096), dtype=torch.bfloat16)
    measure(
        gpuperf,
        quack.rmsnorm,
        x,
        weight[0].float(),
        expected=lambda x, weight: functional.rms_norm(x.double(), x.shape[-1:], weight.double(), 1e-6),
        rtol=BFLOAT16_RTOL,
        atol=1e-5,
    )


def test_quack_softmax(gpuperf: Gpuperf) -> None:
    quack = library(gpuperf, "quack.softmax")
    x = matrices(gpuperf, (16384, 4096), dtype=torch.bfloat16)[0]
    measure(
        gpuperf,
        quack.softmax,
        x,
        expected=lambda x: x.double().softmax(-1),
        rtol=BFLOAT16_RTOL,
        atol=1e-7,
    )


def combine(gpuperf: Gpuperf, fn: Callable[..., Any], expected: Callable[..., Any], **checked: Any) -> None:
    """Measure an elementwise function of two vectors of 128 MiB."""
    x, y = matrices(gpuperf, (2**25,), (2**25,), dtype=torch.float32)
    measure(gpuperf, fn, x, y, expected=in_float64(expected), rtol=1e-5, atol=1e-5, **checked)


def test_cutile_add(gpuperf: Gpuperf) -> None:
    combine(gpuperf, library(gpuperf, "suites.kernels.in_cutile").add_cutile, torch.add)


def test_cupy_elementwise(gpuperf: Gpuperf) -> None:
    combine(gpuperf, library(gpuperf, "suites.kernels.in_cupy").hypotenuse_cupy, torch.hypot)


def test_cupy_own_stream(gpuperf: Gpuperf) -> None:
    combine(gpuperf, library(gpuperf, "suites.kernels.in_cupy").hypotenuse_own_stream, torch.hypot)


def test_numba_axpy(gpuperf: Gpuperf) -> None:
    combine(gpuperf, library(gpuperf, "suites.kernels.in_numba").axpy_numba, lambda x, y: 2 * x + y)


def test_jax_gelu(gpuperf: Gpuperf) -> None:
    kernels = library(gpuperf, "suites.kernels.in_jax")
    combine(gpuperf, kernels.gelu_jax, lambda x, y: functional.gelu(x + y, approximate="tanh"))


def test_cuda_extension(gpuperf: Gpuperf) -> None:
    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + 0.5 * y

    kernels = library(gpuperf, "suites.kernels.extension")
    combine(gpuperf, lambda x, y: kernels.add_in_place(x, y, 0.5), add, mutates=(0,))


def test_compiled_block(gpuperf: Gpuperf) -> None:
    """Compile without autotuning, which would pick other kernels in each process."""
    torch.manual_seed(0)
    block = EncoderBlock.random(1024, gpuperf.device, torch.bfloat16)
    x = torch.randn(16, 512, 1024, device=gpuperf.device, dtype=torch.bfloat16)
    compiled = torch.compile(block.__call__, dynamic=False, options={"triton.autotune_pointwise": False})
    # Ten rounded intermediate results of the order of 1.
    measure(
        gpuperf,
        compiled,
        x,
        expected=lambda x: block.to(torch.float32)(x.float()),
        rtol=2**-6,
        atol=0.06,
    )


def test_sdpa(gpuperf: Gpuperf) -> None:
    shape = (4, 32, 1024, 128)
    q, k, v = matrices(gpuperf, shape, shape, shape, dtype=torch.bfloat16)
    attention = functional.scaled_dot_product_attention
    measure(
        gpuperf,
        attention,
        q,
        k,
        v,
        is_causal=True,
        expected=lambda q, k, v, **options: attention(q.float(), k.float(), v.float(), **options),
        rtol=2**-6,
        atol=2**-6,
    )


def test_cublas(gpuperf: Gpuperf) -> None:
    multiply(gpuperf, torch.mm)
