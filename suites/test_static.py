"""What compilers make of the suites' Triton kernels, on architectures that need not be there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from suites.kernels.gemm import GROUP_ROWS, TILES, Tile, matmul_kernel
from suites.kernels.square import block_of, square_kernel

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


@pytest.mark.gpuperf(limits=["theoretical_occupancy >= 100", "spills == 0", "shared_memory_bytes == 0"])
@pytest.mark.parametrize(
    "shape",
    [
        # Rows of 781 floats do not all begin where 16 bytes begin, so no load can be wider than an element.
        pytest.param((1823, 781), id="1823x781", marks=loads(32)),
        pytest.param((1024, 1024), id="1024x1024", marks=loads(128)),
        pytest.param((4097, 2049), id="4097x2049", marks=loads(32)),
        pytest.param((8192, 8192), id="8192x8192", marks=loads(128)),
    ],
)
def test_square(gpuperf: Gpuperf, shape: tuple[int, int]) -> None:
    x = empty(*shape)
    block, num_warps = block_of(x.shape[1])
    arguments = (x, x, x.stride(0), x.stride(0), x.shape[1])
    gpuperf.static(square_kernel, constexprs={"BLOCK": block}, args=arguments, num_warps=num_warps)


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
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_odd_gemm(gpuperf: Gpuperf, tile: Tile) -> None:
    """No row starts aligned: elements are loaded one by one, and there are more addresses than registers."""
    compile_matmul(gpuperf, tile, 1000, 1031, 517)
