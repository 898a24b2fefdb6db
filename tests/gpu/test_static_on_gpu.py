"""Facts of kernels compiled without a GPU, compared with the driver's facts of the loaded kernels."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import pytest
import torch

triton = pytest.importorskip("triton")

from pytest_gpuperf.features.static.compilation import compile_static  # noqa: E402
from suites.kernels.gemm import GROUP_ROWS, TILES, Tile, matmul_kernel  # noqa: E402
from suites.kernels.square import block_of, square_kernel  # noqa: E402

if TYPE_CHECKING:
    from pytest_gpuperf.records import StaticKernel


def compiled(kernel: Any, args: tuple[Any, ...], constexprs: Any, **options: int) -> StaticKernel:
    arch = "sm_{}{}".format(*torch.cuda.get_device_capability())
    [made] = compile_static(
        kernel, (arch,), signature=None, args=args, constexprs=constexprs, options=options
    ).values()
    return made


def check(launched: Any, made: StaticKernel) -> None:
    assert made.registers_per_thread == launched.n_regs
    assert made.shared_memory_bytes == launched.metadata.shared
    assert bool(made.spills) == bool(launched.n_spills)
    blocks = ctypes.c_int()
    status = ctypes.CDLL("libcuda.so.1").cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(blocks),
        ctypes.c_void_p(launched.function),
        made.block_size,
        ctypes.c_size_t(launched.metadata.shared),
    )
    assert (status, made.blocks_per_sm) == (0, blocks.value)


@pytest.mark.parametrize("shape", [(1823, 781), (1024, 1024), (4097, 2049), (8192, 8192)], ids=str)
def test_driver_agrees_on_a_square(shape: tuple[int, int]) -> None:
    x = torch.randn(shape, device="cuda")
    block, num_warps = block_of(shape[1])
    args = (x, x, x.stride(0), x.stride(0), shape[1])
    launched = square_kernel[(shape[0],)](*args, BLOCK=block, num_warps=num_warps)
    check(launched, compiled(square_kernel, args, {"BLOCK": block}, num_warps=num_warps))


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("size", [(4096, 4096, 4096), (1000, 1031, 517)], ids=str)
def test_driver_agrees_on_a_product(size: tuple[int, int, int], tile: Tile) -> None:
    m, n, k = size
    a, b, c = (torch.zeros(shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (k, n), (m, n)))
    args = (a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride())
    blocks = {"BLOCK_M": tile.rows, "BLOCK_N": tile.columns, "BLOCK_K": tile.depth, "GROUP_M": GROUP_ROWS}
    options = {"num_warps": tile.num_warps, "num_stages": tile.num_stages}
    grid = (triton.cdiv(m, tile.rows) * triton.cdiv(n, tile.columns),)
    launched = matmul_kernel[grid](*args, **blocks, **options)
    check(launched, compiled(matmul_kernel, args, blocks, **options))


def test_compiling_for_another_gpu_leaves_this_one_usable() -> None:
    x = torch.arange(1024, device="cuda", dtype=torch.float32)[None]
    y = torch.empty_like(x)
    args = (y, x, 1024, 1024, 1024)
    compile_static(
        square_kernel, ("sm_80", "sm_120"), signature=None, args=args, constexprs={"BLOCK": 1024}, options={}
    )
    square_kernel[(1,)](*args, BLOCK=1024)
    torch.testing.assert_close(y, x * x)
