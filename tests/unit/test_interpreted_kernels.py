"""Results of the suites' Triton kernels of one pass, on the CPU with Triton's interpreter."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import torch

pytest.importorskip("triton")

from pytest_gpuperf.measure.correctness import check
from suites.kernels.column_sum import column_sum_triton
from suites.kernels.copying import copy_triton
from suites.kernels.gather import gather_triton
from suites.kernels.layer_norm import layer_norm_triton
from suites.kernels.softmax import softmax_triton
from suites.kernels.square import (
    FIXED_BLOCK,
    square_fixed_block,
    square_kernel,
    square_triton,
)
from suites.kernels.top_k import top_k_triton

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Interpret: TypeAlias = Callable[..., Any]

dtypes = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)


@pytest.fixture(scope="module")
def interpret() -> Iterator[Interpret]:
    """Yield a function that calls another in a process where Triton interprets, as chosen at its import."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRITON_INTERPRET", "1")
            pool.submit(int).result()

        def call(function: Callable[..., Any], *arguments: object) -> Any:
            return pool.submit(function, *arguments).result()

        yield call


def normal(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def rounding(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


@pytest.mark.parametrize("columns", [5, 1024, 2049])
def test_square_is_right_with_both_block_forms(interpret: Interpret, columns: int) -> None:
    interpret(square, columns)


def square(columns: int) -> None:
    x = normal(3, columns, dtype=torch.float32)
    for way in (square_triton, square_fixed_block):
        result = check(way, (x,), {}, expected=torch.square)
        assert result.passed, result.failure


def test_one_fixed_block_per_row_leaves_the_rest_unwritten(interpret: Interpret) -> None:
    interpret(square_of_one_block_a_row)


def square_of_one_block_a_row() -> None:
    def square(x: torch.Tensor) -> torch.Tensor:
        output = torch.empty_like(x)
        square_kernel[(x.shape[0],)](
            output, x, output.stride(0), x.stride(0), x.shape[1], BLOCK=FIXED_BLOCK, num_warps=4
        )
        return output

    x = normal(2, 4096, dtype=torch.float32)
    result = check(square, (x,), {}, expected=torch.square)
    assert result.mismatched == 2 * (4096 - 1024)
    assert "never written" in result.failure


def copy(dtype: torch.dtype) -> None:
    x = normal(3, 1001, dtype=dtype)
    assert torch.equal(copy_triton(x), x)


def softmax(dtype: torch.dtype) -> None:
    # Values far from zero: exp overflows float32 unless the kernel subtracts the largest value first.
    x = normal(3, 333, dtype=dtype) + 100
    expected = x.double().softmax(dim=1)
    torch.testing.assert_close(softmax_triton(x).double(), expected, rtol=rounding(dtype), atol=1e-6)


def layer_norm(dtype: torch.dtype) -> None:
    # The mean is ten times the deviation: elements beyond the row must not count as zeros.
    x = normal(3, 333, dtype=dtype) + 10
    weight, bias = normal(2, 333, dtype=dtype)
    expected = torch.nn.functional.layer_norm(x.double(), (333,), weight.double(), bias.double())
    actual = layer_norm_triton(x, weight, bias).double()
    torch.testing.assert_close(actual, expected, rtol=rounding(dtype), atol=1e-5)


@dtypes
@pytest.mark.parametrize("columns", [32, 70])
def test_top_k_is_sorted_with_the_first_of_equals_first(
    interpret: Interpret, dtype: torch.dtype, columns: int
) -> None:
    interpret(top_k, dtype, columns)


def top_k(dtype: torch.dtype, columns: int) -> None:
    x = normal(5, columns, dtype=dtype)
    x[1] = -1.0
    x[2, 7] = torch.inf
    x[3, 9] = torch.nan
    x[4] = -torch.inf
    values, indices = top_k_triton(x, 32)
    expected, first = torch.sort(x, dim=1, descending=True, stable=True)
    torch.testing.assert_close(values, expected[:, :32], rtol=0, atol=0, equal_nan=True)
    assert torch.equal(indices, first[:, :32])


def test_top_k_refuses_values_that_its_keys_cannot_hold() -> None:
    for refused in (torch.empty(2, 64), torch.empty(2, 16).half(), torch.empty(2, 1 << 17).half()):
        with pytest.raises(ValueError, match="16-bit floats"):
            top_k_triton(refused, 32)


def gather(dtype: torch.dtype) -> None:
    table = normal(9, 130, dtype=dtype)[:, :100]
    numbers = torch.arange(41) * 7 % 9
    assert torch.equal(gather_triton(table, numbers), table[numbers])


def column_sum(dtype: torch.dtype) -> None:
    x = normal(300, 300, dtype=dtype)
    actual = column_sum_triton(x)
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual.double(), x.double().sum(0), rtol=0, atol=1e-4)


@dtypes
@pytest.mark.parametrize("function", [copy, softmax, layer_norm, gather, column_sum])
def test_result_is_right_for_rows_of_any_length(
    interpret: Interpret, function: Callable[[torch.dtype], None], dtype: torch.dtype
) -> None:
    interpret(function, dtype)
