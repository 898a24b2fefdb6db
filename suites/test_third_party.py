"""A gallery of other people's kernels; a test is skipped if its package is missing.

`benchmarks/works_with.py` compares the times with true durations.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn import functional

from suites.kernels.encoder import EncoderBlock
from suites.kernels.liger import OPERATIONS, in_float64, with_gradients
from suites.libraries import library, without_autotuning
from suites.products import BFLOAT16_RTOL, accumulation_error, exact_product, matrices

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf import Gpuperf

SUM_ERROR = 1e-4
"""Tolerance of float32 results: sums of up to 16,384 rounded numbers of the order of 1, fast exponentials."""

operations = pytest.mark.parametrize("name", OPERATIONS)


@operations
def test_liger_forward(gpuperf: Gpuperf, name: str) -> None:
    functions = library(gpuperf, "liger_kernel.transformers.functional")
    operation = OPERATIONS[name]
    gpuperf(
        operation.forward(functions, name),
        *operation.arguments(gpuperf.device),
        expected=in_float64(operation.reference),
        mutates=operation.forward_writes,
        rtol=SUM_ERROR,
        atol=SUM_ERROR,
    )


@operations
def test_liger_backward(gpuperf: Gpuperf, name: str) -> None:
    """Run the forward and the backward pass; reading their counters would take long."""
    functions = library(gpuperf, "liger_kernel.transformers.functional")
    operation = OPERATIONS[name]
    arguments = operation.arguments(gpuperf.device)
    gradient = operation.gradient(arguments)
    written = {*operation.forward_writes, *operation.backward_writes}
    call = with_gradients(operation.forward(functions, name), operation.differentiable), gradient, *arguments
    gpuperf.check(
        *call,
        expected=in_float64(with_gradients(operation.reference, operation.differentiable)),
        mutates=(*(at + 1 for at in sorted(written)), *((0,) if operation.overwrites_gradient else ())),
        rtol=SUM_ERROR,
        atol=SUM_ERROR,
    )
    gpuperf.time(*call)


def decayed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    """Return linear attention with the logarithm of the decay at each position and head, in float64."""
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    total = decay.double().cumsum(1).transpose(1, 2)
    distance = (total[..., :, None] - total[..., None, :]).tril()
    scores = (q @ k.mT) * distance.exp() / math.sqrt(q.shape[-1])
    return (scores.tril() @ v).transpose(1, 2)


def retained(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    exponents = -5.0 - torch.arange(q.shape[2], device=q.device, dtype=torch.float64)
    return decayed(q, k, v, torch.log1p(-exponents.exp2()).expand(q.shape[:3]))


def attend(
    gpuperf: Gpuperf, fn: Callable[..., Any], expected: Callable[..., Any], *decay: torch.Tensor
) -> None:
    """Check and time linear attention, whose first result is the output; autotuning under ncu takes long.

    It rounds scores and states to bfloat16, and its results are sums over up to 2048 positions, of the order
    of 100.
    """

    def output(*arguments: torch.Tensor) -> Any:
        return fn(*arguments)[0]

    shape = (4, 2048, 8, 128)
    arguments = (*matrices(gpuperf, shape, shape, shape, dtype=torch.bfloat16), *decay)
    gpuperf.check(output, *arguments, expected=expected, rtol=2**-6, atol=1.0)
    gpuperf.time(output, *arguments)


def test_fla_linear_attention(gpuperf: Gpuperf) -> None:
    fla = without_autotuning(library(gpuperf, "fla.ops.linear_attn"))
    attend(
        gpuperf,
        lambda q, k, v: fla.chunk_linear_attn(q, k, v, normalize=False),
        lambda q, k, v: decayed(q, k, v, q.new_zeros(q.shape[:3])),
    )


def test_fla_retention(gpuperf: Gpuperf) -> None:
    fla = without_autotuning(library(gpuperf, "fla.ops.retention"))
    attend(gpuperf, fla.chunk_retention, retained)


def test_fla_simple_gla(gpuperf: Gpuperf) -> None:
    decay = functional.logsigmoid(torch.randn(4, 2048, 8, device=gpuperf.device))
    fla = without_autotuning(library(gpuperf, "fla.ops.simple_gla"))
    attend(gpuperf, fla.chunk_simple_gla, decayed, decay)


def test_helion_softmax(gpuperf: Gpuperf) -> None:
    kernels = library(gpuperf, "suites.kernels.in_helion")
    x = matrices(gpuperf, (8192, 4096), dtype=torch.float32)[0]
    gpuperf(kernels.softmax_helion, x, expected=lambda x: x.double().softmax(-1), rtol=1e-5, atol=1e-7)


def test_helion_matmul(gpuperf: Gpuperf) -> None:
    multiply(gpuperf, library(gpuperf, "suites.kernels.in_helion").matmul_helion)


def multiply(gpuperf: Gpuperf, product: Callable[..., torch.Tensor]) -> None:
    n = 2048
    a, b = matrices(gpuperf, (n, n), (n, n), dtype=torch.bfloat16)
    gpuperf(
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
    gpuperf(
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
    gpuperf(
        quack.softmax,
        x,
        expected=lambda x: x.double().softmax(-1),
        rtol=BFLOAT16_RTOL,
        atol=1e-7,
    )


def combine(gpuperf: Gpuperf, fn: Callable[..., Any], expected: Callable[..., Any], **checked: Any) -> None:
    """Measure an elementwise function of two vectors of 128 MiB."""
    x, y = matrices(gpuperf, (2**25,), (2**25,), dtype=torch.float32)
    gpuperf(fn, x, y, expected=in_float64(expected), rtol=1e-5, atol=1e-5, **checked)


def test_cutile_add(gpuperf: Gpuperf) -> None:
    add = library(gpuperf, "suites.kernels.in_cutile").add_cutile
    try:
        combine(gpuperf, add, torch.add)
    except FileNotFoundError as missing:  # its compiler is another package
        pytest.skip(str(missing))


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
    block = EncoderBlock.random(1024, gpuperf.device, torch.bfloat16)
    x = torch.randn(16, 512, 1024, device=gpuperf.device, dtype=torch.bfloat16)
    compiled = torch.compile(block.__call__, dynamic=False, options={"triton.autotune_pointwise": False})
    # Ten rounded intermediate results of the order of 1.
    gpuperf.check(compiled, x, expected=lambda x: block.to(torch.float32)(x.float()), rtol=2**-6, atol=0.06)
    gpuperf.time(compiled, x)


def test_sdpa(gpuperf: Gpuperf) -> None:
    shape = (4, 32, 1024, 128)
    attention = partial(functional.scaled_dot_product_attention, is_causal=True)
    gpuperf(
        attention,
        *matrices(gpuperf, shape, shape, shape, dtype=torch.bfloat16),
        expected=lambda *arguments: attention(*(x.float() for x in arguments)),
        rtol=2**-6,
        atol=2**-6,
    )


def test_cublas(gpuperf: Gpuperf) -> None:
    multiply(gpuperf, torch.mm)
