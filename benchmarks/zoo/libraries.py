"""Other people's packages; the table names those that are missing."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.cases import add, close, honest
from benchmarks.zoo.steps import matrix
from suites.kernels.liger import OPERATIONS, in_float64, with_gradients

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.zoo.typed_operators import Honest

LIGER_BACKWARD = ("rms_norm", "layer_norm", "swiglu", "geglu", "cross_entropy", "rope")
SUM_ERROR = 1e-4
"""Tolerance of sums of thousands of float32 numbers of the order of 1."""
SIZE = 1 << 20


def _vectors(device: torch.device, count: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.rand(SIZE, device=device) for _ in range(count))


def _liger_forward(name: str, device: torch.device) -> Honest:
    from liger_kernel.transformers import functional

    one = OPERATIONS[name]
    return close(
        one.forward(functional, name),
        one.arguments(device),
        in_float64(one.reference),
        mutates=one.forward_writes,
        tolerance=SUM_ERROR,
    )


def _liger_backward(name: str, device: torch.device) -> Honest:
    from liger_kernel.transformers import functional

    one = OPERATIONS[name]
    args = one.arguments(device)
    written = sorted({*one.forward_writes, *one.backward_writes})
    return close(
        with_gradients(one.forward(functional, name), one.differentiable),
        (one.gradient(args), *args),
        in_float64(with_gradients(one.reference, one.differentiable)),
        mutates=(*((0,) if one.overwrites_gradient else ()), *(at + 1 for at in written)),
        tolerance=SUM_ERROR,
    )


for _name in OPERATIONS:
    add("Liger", f"liger_{_name}", partial(_liger_forward, _name), cuda=True)
for _name in LIGER_BACKWARD:
    add("Liger", f"liger_{_name}_backward", partial(_liger_backward, _name), cuda=True)


def _linear_attention(name: str, device: torch.device) -> Honest:
    from importlib import import_module

    from suites.libraries import without_autotuning
    from suites.test_third_party import decayed, retained

    fla = without_autotuning(import_module(f"fla.ops.{name}"))
    heads = (2, 512, 4, 64)
    qkv = tuple(torch.randn(heads, device=device).bfloat16() for _ in range(3))
    if name == "retention":
        return close(lambda *qkv: fla.chunk_retention(*qkv)[0], qkv, retained, tolerance=0.5)
    return close(
        lambda *qkv: fla.chunk_linear_attn(*qkv, normalize=False)[0],
        qkv,
        lambda q, k, v: decayed(q, k, v, q.new_zeros(q.shape[:3])),
        tolerance=0.5,
    )


for _name in ("linear_attn", "retention"):
    add("fla", f"fla_{_name}", partial(_linear_attention, _name), cuda=True)


@honest("quack", cuda=True)
def quack_softmax(device: torch.device) -> Honest:
    from quack.softmax import softmax

    return close(softmax, (matrix(device, 1024, 1024).bfloat16(),), lambda x: x.double().softmax(-1))


@honest("quack", cuda=True)
def quack_rmsnorm(device: torch.device) -> Honest:
    from quack.rmsnorm import rmsnorm

    args = matrix(device, 1024, 1024).bfloat16(), torch.rand(1024, device=device)
    return close(rmsnorm, args, lambda x, w: F.rms_norm(x.double(), (1024,), w.double(), 1e-6))


@honest("cut-cross-entropy", cuda=True)
def cut_cross_entropy(device: torch.device) -> Honest:
    from cut_cross_entropy import linear_cross_entropy

    target = torch.randint(2048, (512,), device=device)
    args = (matrix(device, 512, 256) / 16).bfloat16(), matrix(device, 2048, 256).bfloat16()
    return close(
        lambda x, w: linear_cross_entropy(x, w, target),
        args,
        lambda x, w: F.cross_entropy(x.double() @ w.double().T, target),
    )


def _projected(x: torch.Tensor, power: int) -> torch.Tensor:
    """Return the entmax of rows by bisection, in float64: `power` is 1 for sparsemax, 2 for entmax15."""
    x = x.double() / power
    low = x.amax(-1, keepdim=True) - 1
    high = low + 1
    for _ in range(60):
        middle = (low + high) / 2
        above = (x - middle).clamp_min(0).pow(power).sum(-1, keepdim=True) >= 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (x - low).clamp_min(0).pow(power)


def _entmax(name: str, power: int, device: torch.device) -> Honest:
    import entmax

    fn = getattr(entmax, name)
    return close(lambda x: fn(x, dim=-1), (matrix(device),), lambda x: _projected(x, power), tolerance=1e-4)


for _name, _power in (("sparsemax", 1), ("entmax15", 2)):
    add("entmax", _name, partial(_entmax, _name, _power))


def _torchao(configuration: str, tolerance: float, device: torch.device) -> Honest:
    from torchao import quantization

    if not hasattr(quantization, configuration):
        raise ImportError(f"torchao has no {configuration}")
    layer = torch.nn.Linear(512, 512, bias=False, device=device, dtype=torch.bfloat16)
    exact = layer.weight.detach().double()
    quantization.quantize_(layer, getattr(quantization, configuration)())
    args = (matrix(device).bfloat16(),)
    return close(lambda x: layer(x).detach(), args, lambda x: x.double() @ exact.T, tolerance=tolerance)


for _name, _configuration, _tolerance in (
    ("int8_weights", "Int8WeightOnlyConfig", 6e-2),
    ("int8_both", "Int8DynamicActivationInt8WeightConfig", 1e-1),
    ("float8_both", "Float8DynamicActivationFloat8WeightConfig", 2e-1),
):
    add("torchao", f"torchao_{_name}", partial(_torchao, _configuration, _tolerance), cuda=True)


@honest("gemlite", cuda=True)
def gemlite_int8_weights(device: torch.device) -> Honest:
    from gemlite import set_autotune
    from gemlite.helper import A16W8

    set_autotune(False)
    layer = torch.nn.Linear(512, 512, bias=False, device=device, dtype=torch.float16)
    exact = layer.weight.detach().double()
    packed = A16W8(device="cuda:0").from_linear(layer)
    return close(packed, (matrix(device).half(),), lambda x: x.double() @ exact.T, tolerance=6e-2)


@honest("tilelang", cuda=True)
def tilelang_add(device: torch.device) -> Honest:
    from benchmarks.zoo.in_tilelang import add_tilelang

    return close(add_tilelang, _vectors(device, 2), torch.add, tolerance=1e-6)


@honest("Warp", cuda=True)
def warp_twice(device: torch.device) -> Honest:
    from benchmarks.zoo.in_warp import twice_warp

    return close(twice_warp, _vectors(device, 1), lambda x: x + x, tolerance=1e-6)


@honest("Helion", cuda=True)
def helion_softmax(device: torch.device) -> Honest:
    from suites.kernels.in_helion import softmax_helion

    return close(
        softmax_helion, (matrix(device, 1024, 1024),), lambda x: x.double().softmax(-1), tolerance=1e-4
    )


@honest("numba-cuda", cuda=True)
def numba_axpy(device: torch.device) -> Honest:
    from suites.kernels.in_numba import axpy_numba

    return close(axpy_numba, _vectors(device, 2), lambda x, y: 2 * x + y, tolerance=1e-5)


@honest("CuPy", cuda=True)
def cupy_on_the_current_stream(device: torch.device) -> Honest:
    from suites.kernels.in_cupy import hypotenuse_cupy

    return close(hypotenuse_cupy, _vectors(device, 2), torch.hypot, tolerance=1e-5)


@honest("CuPy", cuda=True)
def cupy_on_its_own_stream(device: torch.device) -> Honest:
    from suites.kernels.in_cupy import hypotenuse_own_stream

    return close(hypotenuse_own_stream, _vectors(device, 2), torch.hypot, tolerance=1e-5)


def _cupy(
    fn: Callable[[Any, Any], Any], expected: Callable[[torch.Tensor], Any], device: torch.device
) -> Honest:
    """Return a callable of CuPy's own arrays, on its default stream, which is the legacy one."""
    import cupy

    x = cupy.asarray(matrix(device, 1024, 1024))
    return close(lambda x: fn(cupy, x), (x,), lambda x: expected(torch.as_tensor(x, device=device).double()))


for _name, _fn, _expected in (
    ("chain", lambda cupy, x: cupy.sin(x) + 1, lambda x: x.sin() + 1),
    ("sum", lambda _, x: x.sum(axis=1), lambda x: x.sum(1)),
    ("sort", lambda cupy, x: cupy.sort(x, axis=1), lambda x: x.sort(1).values),
    ("product", lambda _, x: x @ x / 32, lambda x: x @ x / 32),
):
    add("CuPy", f"cupy_{_name}", partial(_cupy, _fn, _expected), cuda=True)


def _jax(fn: Callable[[Any, Any], Any], expected: Callable[[torch.Tensor], Any], _: torch.device) -> Honest:
    """Return a jitted callable of JAX's own arrays."""
    # Else JAX takes three quarters of the GPU's memory.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    x = jax.numpy.asarray(matrix(torch.device("cpu"), 1024, 1024).numpy())
    jitted = jax.jit(partial(fn, jax))
    return close(jitted, (x,), lambda x: expected(torch.utils.dlpack.from_dlpack(x).double()))


for _name, _fn, _expected in (
    ("chain", lambda jax, x: jax.numpy.sin(x) + 1, lambda x: x.sin() + 1),
    ("softmax", lambda jax, x: jax.nn.softmax(x), lambda x: x.softmax(-1)),
    ("sort", lambda jax, x: jax.numpy.sort(x, axis=1), lambda x: x.sort(1).values),
    ("product", lambda _, x: x @ x / 32, lambda x: x @ x / 32),
    ("gradient", lambda jax, x: jax.grad(lambda x: (x**3).sum())(x), lambda x: 3 * x * x),
):
    add("JAX", f"jax_{_name}", partial(_jax, _fn, _expected), cuda=True)


@honest("JAX", cuda=True)
def jax_on_tensors_of_torch(device: torch.device) -> Honest:
    from suites.kernels.in_jax import gelu_jax

    return close(
        gelu_jax, _vectors(device, 2), lambda x, y: F.gelu(x + y, approximate="tanh"), tolerance=1e-4
    )
