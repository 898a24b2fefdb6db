"""Other numbers: sparse, quantised, complex, eight bits, whole numbers, and random ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.zoo.cases import add, close, honest
from benchmarks.zoo.steps import matrix
from benchmarks.zoo.typed_operators import Honest

if TYPE_CHECKING:
    from collections.abc import Callable

_OUTER = {"rtol": 1e-3, "atol": 1e-3}


def _sparse(device: torch.device) -> torch.Tensor:
    x = matrix(device)
    return x * (x > 1.5)


@honest("sparse")
def sparse_coo_product(device: torch.device) -> Honest:
    left = _sparse(device)
    coo = left.to_sparse()
    return close(lambda y: torch.sparse.mm(coo, y), (matrix(device),), lambda y: left.double() @ y.double())


@honest("sparse")
def sparse_csr_product(device: torch.device) -> Honest:
    left = _sparse(device)
    csr = left.to_sparse_csr()
    return close(lambda y: csr @ y, (matrix(device),), lambda y: left.double() @ y.double())


@honest("sparse")
def sparse_argument(device: torch.device) -> Honest:
    """Take a sparse tensor as an argument."""
    args = (_sparse(device).to_sparse_csr(), matrix(device))
    return close(lambda a, y: a @ y, args, lambda a, y: a.to_dense().double() @ y.double())


@honest("sparse")
def sparse_vector_product(device: torch.device) -> Honest:
    left = _sparse(device)
    csr = left.to_sparse_csr()
    x = torch.randn(512, device=device)
    return close(lambda x: csr @ x, (x,), lambda x: left.double() @ x.double())


@honest("sparse")
def made_sparse(device: torch.device) -> Honest:
    """Convert to sparse and back: the host waits for the number of elements."""
    return Honest(lambda x: x.to_sparse().to_dense(), (_sparse(device),), lambda x: x.clone())


@honest("sparse")
def sparse_output(device: torch.device) -> Honest:
    """Scale the values of a sparse tensor."""
    csr = _sparse(device).to_sparse_csr()
    rows, columns = csr.crow_indices(), csr.col_indices()

    def call(values: torch.Tensor) -> torch.Tensor:
        return torch.sparse_csr_tensor(rows, columns, values * 2, (512, 512), check_invariants=False)

    def expected(values: torch.Tensor) -> torch.Tensor:
        return torch.sparse_csr_tensor(rows, columns, values.double() + values, (512, 512))

    return Honest(call, (csr.values(),), expected)


@honest("sparse")
def from_coordinates(device: torch.device) -> Honest:
    at = torch.randint(512, (2, 4096), device=device)

    def call(values: torch.Tensor) -> torch.Tensor:
        return torch.sparse_coo_tensor(at, values, (512, 512)).to_dense()

    def expected(values: torch.Tensor) -> torch.Tensor:
        zeros = torch.zeros(512, 512, device=device, dtype=torch.float64)
        return zeros.index_put((at[0], at[1]), values.double(), accumulate=True)

    return close(call, (torch.randn(4096, device=device),), expected, tolerance=1e-4)


@honest("sparse", cuda=True)
def two_of_four(device: torch.device) -> Honest:
    """Multiply a matrix of which two of four elements are zero, on sparse tensor cores."""
    from torch.sparse import to_sparse_semi_structured

    dense = torch.randn(256, 256, device=device).half() / 16
    dense *= torch.tensor([1, 1, 0, 0], device=device).half().repeat(64)
    sparse = to_sparse_semi_structured(dense)
    args = (torch.randn(256, 256, device=device).half(),)
    return close(lambda x: torch.mm(sparse, x), args, lambda x: dense.double() @ x.double())


@honest("quantised")
def quantised_and_back(device: torch.device) -> Honest:
    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(x, 0.05, 0, torch.qint8).dequantize()

    def expected(x: torch.Tensor) -> torch.Tensor:
        return torch.round(x / 0.05).clamp(-128, 127) * 0.05

    # One step, as halves may be rounded to either side.
    return Honest(call, (matrix(device),), expected, rtol=1e-5, atol=0.051)


@honest("quantised")
def fake_quantised(device: torch.device) -> Honest:
    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.fake_quantize_per_tensor_affine(x, 0.05, 0, -128, 127)

    def expected(x: torch.Tensor) -> torch.Tensor:
        return torch.round(x / 0.05).clamp(-128, 127) * 0.05

    return Honest(call, (matrix(device),), expected, rtol=1e-5, atol=0.051)


@honest("quantised")
def int8_rows(device: torch.device) -> Honest:
    """Quantise rows to int8, with their scales."""

    def call(x: torch.Tensor) -> Any:
        scale = x.abs().amax(-1, keepdim=True) / 127
        return (x / scale).round().to(torch.int8), scale

    def expected(x: torch.Tensor) -> Any:
        scale = torch.maximum(x.amax(-1), -x.amin(-1))[:, None] / 127
        return torch.round(x / scale).to(torch.int8), scale

    return Honest(call, (matrix(device),), expected, rtol=0.0, atol=1.0)


@honest("quantised", cuda=True)
def int8_product(device: torch.device) -> Honest:
    args = tuple(torch.randint(-8, 8, (256, 256), device=device, dtype=torch.int8) for _ in range(2))
    return Honest(torch._int_mm, args, lambda x, y: (x.double() @ y.double()).to(torch.int32))


@honest("quantised")
def packed_int4(device: torch.device) -> Honest:
    """Unpack two numbers of four bits from each byte, and scale them."""

    def call(packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        low, high = (packed & 15).to(torch.int8) - 8, (packed >> 4).to(torch.int8) - 8
        return torch.stack((low, high), -1).flatten(1) * scale

    def expected(packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        whole = packed.long()
        return torch.stack((whole % 16 - 8, whole // 16 - 8), -1).flatten(1) * scale

    packed = torch.randint(256, (512, 256), device=device, dtype=torch.uint8)
    return Honest(call, (packed, torch.rand(512, 1, device=device)), expected)


def _fft(name: str, fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def make(device: torch.device) -> Honest:
        x = torch.randn(256, 256, device=device, dtype=torch.complex64)
        return close(fn, (x,), lambda x: fn(x.to(torch.complex128)).to(torch.complex64), tolerance=1e-3)

    add("complex", name, make)


_fft("fft", torch.fft.fft)
_fft("fft2", torch.fft.fft2)
_fft("ifft", torch.fft.ifft)
_fft("fft_real_part", lambda x: torch.view_as_real(torch.fft.fft(x))[..., 0].contiguous() + 0j)
_fft("conjugate", lambda x: x.conj() * 2)
_fft("complex_product", lambda x: x @ x.mH)
_fft("complex_exp", lambda x: (x * 0.1).exp())


@honest("complex")
def magnitude_and_angle(device: torch.device) -> Honest:
    x = torch.randn(256, 256, device=device, dtype=torch.complex64)

    def expected(x: torch.Tensor) -> Any:
        return torch.hypot(x.real, x.imag), torch.atan2(x.imag, x.real)

    return close(lambda x: (x.abs(), x.angle()), (x,), expected, tolerance=1e-4)


@honest("complex")
def spectrogram(device: torch.device) -> Honest:
    window = torch.hann_window(256, device=device)

    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.stft(x, 256, 64, window=window, center=False, return_complex=True).abs()

    def expected(x: torch.Tensor) -> Any:
        frames = x.double().unfold(-1, 256, 64) * window.double()
        return torch.fft.rfft(frames).abs().mT

    return close(call, (torch.randn(4, 8192, device=device),), expected, tolerance=1e-3)


def _cast(dtype: torch.dtype, device: torch.device) -> Honest:
    return Honest(lambda x: x.to(dtype), (matrix(device),), lambda x: x.clone().to(dtype))


for _dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
    add("fp8", f"to_{str(_dtype).removeprefix('torch.')}", partial(_cast, _dtype))


@honest("fp8")
def fp8_rows(device: torch.device) -> Honest:
    """Scale rows to the range of fp8, and return the scales as well."""

    def call(x: torch.Tensor) -> Any:
        scale = x.abs().amax(-1, keepdim=True) / 448
        return (x / scale).to(torch.float8_e4m3fn).float(), scale

    def expected(x: torch.Tensor) -> Any:
        scale = torch.maximum(x.amax(-1), -x.amin(-1))[:, None] / 448
        return x.double() / scale, scale

    return Honest(call, (matrix(device),), expected, rtol=0.07, atol=1.0)


@honest("fp8")
def fp8_argument(device: torch.device) -> Honest:
    """Take numbers of eight bits."""
    args = (matrix(device).to(torch.float8_e4m3fn), torch.rand(512, 1, device=device))
    return Honest(lambda x, scale: x.float() * scale, args, lambda x, scale: scale * x.to(torch.float32))


@honest("fp8", cuda=True)
def fp8_product(device: torch.device) -> Honest:
    x = (torch.randn(256, 256, device=device) / 4).to(torch.float8_e4m3fn)
    y = (torch.randn(256, 256, device=device) / 4).to(torch.float8_e4m3fn)
    one = torch.ones((), device=device)

    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(x, y.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

    return close(call, (x, y), lambda x, y: x.double() @ y.double().t())


def _typed(name: str, dtype: torch.dtype, fn: Callable[..., Any], tolerance: float) -> None:
    """Add a callable of two matrices of a type, next to the same in float64."""

    def make(device: torch.device) -> Honest:
        args = matrix(device).to(dtype), (matrix(device) / 22).to(dtype)
        return close(fn, args, lambda x, y: fn(x.double(), y.double()), tolerance=tolerance)

    add("other types", name, make)


_typed("half_product", torch.float16, torch.mm, 1e-2)
_typed("bfloat16_product", torch.bfloat16, torch.mm, 4e-2)
_typed("half_softmax", torch.float16, lambda x, y: (x + y).softmax(-1), 1e-2)
_typed("bfloat16_norm", torch.bfloat16, lambda x, y: torch.rms_norm(x + y, (512,)), 8e-2)
_typed("double_product", torch.float64, torch.mm, 1e-8)


def _whole(name: str, fn: Callable[..., Any], expected: Callable[..., Any]) -> None:
    """Add a callable of whole numbers."""

    def make(device: torch.device) -> Honest:
        return Honest(fn, (torch.randint(1, 1000, (512, 512), device=device),), expected)

    add("other types", name, make)


_whole("integer_product", lambda x: x * x, lambda x: x**2)
_whole("bits", lambda x: (x << 3) ^ x, lambda x: (8 * x).bitwise_xor(x))
_whole("histogram", lambda x: torch.bincount(x.flatten(), minlength=1000), lambda x: _counts(x))
_whole("unique", lambda x: torch.unique(x), lambda x: _counts(x).nonzero()[:, 0])
_whole(
    "one_hot", lambda x: (x[0, :, None] == torch.arange(1000, device=x.device)).long(), lambda x: _hot(x[0])
)


def _counts(x: torch.Tensor) -> torch.Tensor:
    ones = torch.ones(x.numel(), dtype=torch.int64, device=x.device)
    return torch.zeros(1000, dtype=torch.int64, device=x.device).scatter_add(0, x.flatten(), ones)


def _hot(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(x), 1000, dtype=torch.int64, device=x.device).scatter(1, x[:, None], 1)


@honest("other types")
def boolean_masks(device: torch.device) -> Honest:
    args = matrix(device) > 0, matrix(device) > 0
    return Honest(lambda x, y: x & ~y, args, lambda x, y: x.logical_and(y.logical_not()))


@honest("generators")
def own_generator(device: torch.device) -> Honest:
    """Seed a generator of its own in each call."""
    generator = torch.Generator(device)

    def call(x: torch.Tensor) -> torch.Tensor:
        generator.manual_seed(1)
        return x + torch.rand(x.shape, generator=generator, device=device)

    def expected(x: torch.Tensor) -> torch.Tensor:
        again = torch.Generator(device).manual_seed(1)
        return x + torch.rand(x.shape, generator=again, device=device)

    return Honest(call, (matrix(device),), expected)


@honest("generators")
def advancing_generator(device: torch.device) -> Honest:
    """Draw other numbers in each call."""
    generator = torch.Generator(device).manual_seed(1)
    return Honest(lambda x: x + torch.rand(x.shape, generator=generator, device=device), (matrix(device),))


@honest("generators")
def global_seed(device: torch.device) -> Honest:
    """Seed all of torch in each call."""

    def call(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(7)
        return torch.nn.functional.dropout(x, 0.5)

    def expected(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(7)
        return torch.nn.functional.dropout(x.clone(), 0.5)

    return Honest(call, (matrix(device),), expected)


@honest("generators")
def forked_generator(device: torch.device) -> Honest:
    def call(x: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(3)
            return x * torch.bernoulli(torch.full_like(x, 0.5))

    return Honest(call, (matrix(device),), call)


def _random(name: str, fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
    add("generators", name, lambda device: Honest(fn, (matrix(device),)))


_random("alpha_dropout", lambda x: torch.nn.functional.alpha_dropout(x, 0.2, training=True))
_random("gumbel_softmax", lambda x: torch.nn.functional.gumbel_softmax(x))
_random("random_walk", lambda x: torch.randn_like(x).cumsum(-1) + x)
_random("shuffled_rows", lambda x: x[torch.randperm(len(x), device=x.device)])
_random("stochastic_rounding", lambda x: (x * 16 + torch.rand_like(x)).floor() / 16)
_random("exponential", lambda x: torch.empty_like(x).exponential_())
