"""Memory-bound kernels in 16-bit types: torch's and Triton's in turn, with the rate of a copy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn.functional import layer_norm

from suites.kernels.column_sum import column_sum_triton
from suites.kernels.copying import copy_triton
from suites.kernels.gather import gather_triton
from suites.kernels.layer_norm import layer_norm_triton
from suites.kernels.softmax import softmax_triton
from suites.kernels.top_k import top_k_triton

if TYPE_CHECKING:
    from pytest_gpuperf import Gpuperf

ROWS, COLUMNS = 32768, 4096
"""Shape of 256 MiB of 2-byte elements, several times an L2."""
EMBEDDING = 128
"""Columns of the gathered table: 256 bytes a row."""
K = 32

dtypes = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])


def matrix(gpuperf: Gpuperf, dtype: torch.dtype) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn((ROWS, COLUMNS), device=gpuperf.device, dtype=dtype)


def rounding(dtype: torch.dtype) -> float:
    """Return twice the largest relative rounding error.

    It is 2^-10 for float16 (11 significant bits) and 2^-7 for bfloat16 (8 bits).
    """
    return torch.finfo(dtype).eps


def least_step(dtype: torch.dtype) -> float:
    """Return the step between subnormal numbers, whose rounding error is absolute.

    They are below 2^-14 in float16, as is a fifth of a softmax of 4096 normally distributed numbers.
    """
    info = torch.finfo(dtype)
    return info.smallest_normal * info.eps


def compare_with_copy(gpuperf: Gpuperf, x: torch.Tensor, share: float = 0.0) -> None:
    """Time a copy of `x` in the same test, and demand a share of its rate from Triton's kernel.

    Another card, a lower memory clock or a neighbour on the GPU changes both times.
    """
    copy = gpuperf.time(copy_triton, x, bytes=2 * x.nbytes, label="copy")
    if share:
        assert copy.gb_per_s is not None
        gpuperf.limit(f"main: gb_per_s >= {share * copy.gb_per_s:.1f}")


@dtypes
def test_copy_torch(gpuperf: Gpuperf, dtype: torch.dtype) -> None:
    """The driver copies for torch: without a kernel, `gpuperf.compare` would have nothing to profile."""
    x = matrix(gpuperf, dtype)
    gpuperf.check(torch.clone, x, expected=x, rtol=0.0, atol=0.0)
    gpuperf.time(torch.clone, x, bytes=2 * x.nbytes)


# No thread of a copy waits for another warp.
@dtypes
@pytest.mark.gpuperf(kernels=r"copy_kernel", limits=["memory_throughput >= 60", "stall.barrier <= 25"])
def test_copy_triton(gpuperf: Gpuperf, dtype: torch.dtype) -> None:
    x = matrix(gpuperf, dtype)
    gpuperf(copy_triton, x, expected=x, rtol=0.0, atol=0.0, bytes=2 * x.nbytes)


def exact_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.double(), dim=1)


@dtypes
def test_softmax_triton(gpuperf: Gpuperf, dtype: torch.dtype) -> None:
    x = matrix(gpuperf, dtype)
    gpuperf.compare(
        {"torch": partial(torch.softmax, dim=1), "main": softmax_triton},
        x,
        expected=exact_softmax,
        rtol=rounding(dtype),
        atol=least_step(dtype),
        bytes=2 * x.nbytes,
    )
    compare_with_copy(gpuperf, x, share=0.9)


def torch_layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return layer_norm(x, (COLUMNS,), weight, bias)


def exact_layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch_layer_norm(x.double(), weight.double(), bias.double())


@dtypes
def test_layer_norm_triton(gpuperf: Gpuperf, dtype: torch.dtype) -> None:
    x = matrix(gpuperf, dtype)
    weight, bias = torch.randn((2, COLUMNS), device=gpuperf.device, dtype=dtype)
    gpuperf.compare(
        {"torch": torch_layer_norm, "main": layer_norm_triton},
        x,
        weight,
        bias,
        expected=exact_layer_norm,
        rtol=rounding(dtype),
        # Near zero, if a bias cancels, the rounding of float32 exceeds that of the result.
        atol=1e-5,
        bytes=2 * x.nbytes,
    )
    compare_with_copy(gpuperf, x, share=0.9)


def largest(x: torch.Tensor, k: int) -> torch.Tensor:
    return torch.sort(x, dim=1, descending=True).values[:, :k]


def torch_top_k(x: torch.Tensor, k: int) -> torch.Tensor:
    """Return the values, as the next function does; the kernels find the columns, too."""
    return torch.topk(x, k)[0]


def triton_top_k(x: torch.Tensor, k: int) -> torch.Tensor:
    return top_k_triton(x, k)[0]


def at_columns(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the values in the columns that Triton's kernel finds, and whether columns differ."""
    columns = top_k_triton(x, k)[1]
    return x.gather(1, columns), columns.sort(dim=1).values.diff(dim=1) > 0


def in_all_columns(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    values = largest(x, k)
    return values, torch.ones_like(values[:, 1:], dtype=torch.bool)


@dtypes
def test_top_k_triton(gpuperf: Gpuperf, dtype: torch.dtype) -> None:
    """Check columns by their values, since ties are free; no column may come twice."""
    x = matrix(gpuperf, dtype)
    gpuperf.check(at_columns, x, K, expected=in_all_columns, rtol=0.0, atol=0.0, label="columns")
    gpuperf.compare(
        {"torch": torch_top_k, "main": triton_top_k},
        x,
        K,
        expected=largest,
        rtol=0.0,
        atol=0.0,
        # 2 bytes for each value kept, 8 for its column.
        bytes=x.nbytes + 10 * ROWS * K,
    )
    compare_with_copy(gpuperf, x)


def exact_rows(table: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    return table[numbers]


def torch_gather(table: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    return torch.index_select(table, 0, numbers)


@dtypes
def test_gather_triton(gpuperf: Gpuperf, dtype: torch.dtype) -> None:
    """Gather each row once in random order, so that no cache has the next one."""
    table = matrix(gpuperf, dtype).view(-1, EMBEDDING)
    numbers = torch.randperm(table.shape[0], device=gpuperf.device)
    gpuperf.compare(
        {"torch": torch_gather, "main": gather_triton},
        table,
        numbers,
        expected=exact_rows,
        rtol=0.0,
        atol=0.0,
        bytes=2 * table.nbytes + numbers.nbytes,
    )
    compare_with_copy(gpuperf, table, share=0.9)


def torch_column_sum(x: torch.Tensor) -> torch.Tensor:
    return torch.sum(x, 0, dtype=torch.float32)


def exact_column_sum(x: torch.Tensor) -> torch.Tensor:
    return torch.sum(x, 0, dtype=torch.float64)


@dtypes
def test_column_sum_triton(gpuperf: Gpuperf, dtype: torch.dtype) -> None:
    """Blocks add to the result by atomics in any order; writing the initial zeros counts too."""
    x = matrix(gpuperf, dtype)
    gpuperf.compare(
        {"torch": torch_column_sum, "main": column_sum_triton},
        x,
        expected=exact_column_sum,
        rtol=0.0,
        # In any order and either type, each of ROWS additions in float32 rounds a sum of the order of
        # sqrt(ROWS) by up to 2^-24.
        atol=ROWS**1.5 * 2**-24,
        bytes=x.nbytes,
    )
    compare_with_copy(gpuperf, x, share=0.7)
