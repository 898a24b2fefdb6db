"""Compiled Triton kernels of the suites, for architectures that need not be present."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from suites.kernels import column_sum, copying, gather, layer_norm, softmax, top_k
from suites.kernels.gemm import GROUP_ROWS, TILES, Tile, matmul_kernel
from suites.kernels.square import FIXED_BLOCK, block_of, square_blocks_kernel, square_kernel
from suites.test_memory_kernels import COLUMNS, EMBEDDING, ROWS, K

if TYPE_CHECKING:
    from pytest_gpuperf import Gpuperf

TENSOR_CORES = [
    "sm_80: mma.sync in tensor_instructions",
    "sm_90: wgmma in tensor_instructions",
    "sm_100: tcgen05 in tensor_instructions",
    "sm_120: mma.sync in tensor_instructions",
]


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, device="meta", dtype=dtype)


def loads(bits: int) -> pytest.MarkDecorator:
    return pytest.mark.gpuperf(limits={"widest_load_bits": f"== {bits}"})


square_limits = pytest.mark.gpuperf(
    limits=["theoretical_occupancy >= 100", "spills == 0", "shared_memory_bytes == 0"]
)


def threads(number: int) -> pytest.MarkDecorator:
    return pytest.mark.gpuperf(limits={"block_size": f"== {number}"})


@square_limits
@pytest.mark.parametrize(
    "n",
    [
        pytest.param(256, marks=[threads(128), loads(64)]),
        # Not every row of 781 floats starts at a multiple of 16 bytes, so loads are single elements.
        pytest.param(781, marks=[threads(128), loads(32)]),
        pytest.param(1024, marks=[threads(128), loads(128)]),
        pytest.param(4224, marks=[threads(512), loads(128)]),
        pytest.param(8192, marks=[threads(512), loads(128)]),
    ],
)
def test_square(gpuperf: Gpuperf, n: int) -> None:
    x = empty(4096, n)
    block, num_warps = block_of(n)
    gpuperf.static(square_kernel, constexprs={"BLOCK": block}, args=(x, x, n, n, n), num_warps=num_warps)


@square_limits
@threads(128)
@pytest.mark.parametrize("n", [pytest.param(781, marks=loads(32)), pytest.param(8192, marks=loads(128))])
def test_square_fixed_block(gpuperf: Gpuperf, n: int) -> None:
    """Triton compiles one kernel for multiples of 16 and one for all other N."""
    x = empty(4096, n)
    blocks = {"BLOCK": FIXED_BLOCK}
    gpuperf.static(square_blocks_kernel, constexprs=blocks, args=(x, x, n, n, n), num_warps=4)


def compile_matmul(gpuperf: Gpuperf, tile: Tile, m: int, n: int, k: int) -> None:
    a, b, c = (empty(*shape, dtype=torch.bfloat16) for shape in ((m, k), (k, n), (m, n)))
    gpuperf.static(
        matmul_kernel,
        constexprs={
            "BLOCK_M": tile.rows,
            "BLOCK_N": tile.columns,
            "BLOCK_K": tile.depth,
            "GROUP_M": GROUP_ROWS,
        },
        args=(a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


@pytest.mark.gpuperf(limits=["spills == 0", "widest_load_bits == 128", *TENSOR_CORES])
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_large_gemm(gpuperf: Gpuperf, tile: Tile) -> None:
    compile_matmul(gpuperf, tile, 4096, 4096, 4096)


@pytest.mark.gpuperf(limits=TENSOR_CORES)
@pytest.mark.parametrize("tile", TILES[-1:], ids=str)
def test_odd_gemm(gpuperf: Gpuperf, tile: Tile) -> None:
    """Rows are not aligned: elements are loaded one by one, and there are more addresses than registers.

    Compilation takes two seconds an architecture, so only the largest tile is compiled.
    """
    compile_matmul(gpuperf, tile, 1000, 1031, 517)


memory_bound = pytest.mark.gpuperf(limits=["spills == 0", "widest_load_bits == 128"])
"""Limits for kernels of 16-bit types whose rows all start at multiples of 16 bytes."""


def half(*shape: int) -> torch.Tensor:
    return empty(*shape, dtype=torch.bfloat16)


@memory_bound
@pytest.mark.gpuperf(limits=["theoretical_occupancy >= 100", "shared_memory_bytes == 0"])
def test_copy(gpuperf: Gpuperf) -> None:
    x = half(ROWS, COLUMNS)
    blocks = {"BLOCK": copying.BLOCK}
    gpuperf.static(copying.copy_kernel, constexprs=blocks, args=(x, x, x.numel()), num_warps=4)


@memory_bound
def test_softmax(gpuperf: Gpuperf) -> None:
    arguments = (half(ROWS, COLUMNS), half(ROWS, COLUMNS), COLUMNS, COLUMNS, COLUMNS)
    blocks = {"BLOCK": COLUMNS}
    gpuperf.static(softmax.softmax_kernel, constexprs=blocks, args=arguments, num_warps=softmax.NUM_WARPS)


@memory_bound
def test_layer_norm(gpuperf: Gpuperf) -> None:
    x, weight = half(ROWS, COLUMNS), half(COLUMNS)
    gpuperf.static(
        layer_norm.layer_norm_kernel,
        constexprs={"BLOCK": COLUMNS},
        args=(x, x, weight, weight, COLUMNS, COLUMNS, COLUMNS, layer_norm.EPSILON),
        num_warps=layer_norm.NUM_WARPS,
    )


@memory_bound
def test_top_k(gpuperf: Gpuperf) -> None:
    """Compile only for Hopper: the unrolled network takes seconds.

    It uses integers and shuffles, which are the same on all architectures.
    """
    values, columns = half(ROWS, K), empty(ROWS, K, dtype=torch.int64)
    gpuperf.static(
        top_k.top_k_kernel,
        constexprs={"K": K, "BLOCK": COLUMNS},
        args=(values, columns, half(ROWS, COLUMNS), COLUMNS, COLUMNS),
        archs=("sm_90",),
        num_warps=top_k.NUM_WARPS,
    )


@memory_bound
def test_gather(gpuperf: Gpuperf) -> None:
    rows = ROWS * COLUMNS // EMBEDDING
    table, numbers = half(rows, EMBEDDING), empty(rows, dtype=torch.int64)
    block_rows, block_columns = gather.block_of(EMBEDDING)
    gpuperf.static(
        gather.gather_kernel,
        constexprs={"BLOCK_ROWS": block_rows, "BLOCK_COLUMNS": block_columns},
        args=(table, table, numbers, rows, EMBEDDING, EMBEDDING),
        num_warps=4,
    )


@memory_bound
def test_column_sum(gpuperf: Gpuperf) -> None:
    gpuperf.static(
        column_sum.column_sum_kernel,
        constexprs={
            "STEPS": column_sum.STEPS,
            "BLOCK_ROWS": column_sum.BLOCK_ROWS,
            "BLOCK_COLUMNS": column_sum.BLOCK_COLUMNS,
        },
        args=(empty(COLUMNS), half(ROWS, COLUMNS), ROWS, COLUMNS, COLUMNS),
        num_warps=4,
    )
