"""Compiled matrix products on tensor cores, for architectures that need not be present."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from suites.kernels.block_scaled_gemm import TILES as BLOCK_SCALED_TILES
from suites.kernels.block_scaled_gemm import arguments, block_scaled_kernel, constants
from suites.kernels.gemm import GROUP_ROWS, Tile, matmul_kernel
from suites.kernels.microscaling import MXFP4, MXFP8, NVFP4, Format
from suites.kernels.persistent_gemm import descriptors, persistent_kernel, persistent_tma_kernel
from suites.kernels.stream_k_gemm import ROWS_SUMMED, slots_of, stream_k_kernel, sum_parts_kernel
from suites.test_static import TENSOR_CORES, empty
from suites.test_tensor_core_gemm import FEW_ROWS, FLAT_TILE, LARGE_TILE, SMALL_K, SMALL_MN, SMALL_TILE, Shape

if TYPE_CHECKING:
    from pytest_gpuperf import Gpuperf

PROGRAMS = 132
"""Number of SMs of an H200; other numbers make nearly the same kernel."""
SHALLOW_TILE = Tile(128, 128, 32, num_warps=4, num_stages=3)
"""Tile for `sm_120`, whose blocks have 99 KiB of shared memory."""
BEFORE_SM_120 = ("sm_80", "sm_90", "sm_100")


def blocks(tile: Tile) -> dict[str, int]:
    return {"BLOCK_M": tile.rows, "BLOCK_N": tile.columns, "BLOCK_K": tile.depth}


def matrices(shape: Shape) -> list[torch.Tensor]:
    """Return A, B and C."""
    m, n, k = shape
    return [empty(*size, dtype=torch.bfloat16) for size in ((m, k), (k, n), (m, n))]


# If tensor cores read shared memory, registers are left for addresses; `mma.sync` needs them for operands.
NO_SPILLS = ["sm_90: spills == 0", "sm_100: spills == 0"]
TMA = "cp.async.bulk.tensor"
WITH_TMA = ("sm_90", "sm_100", "sm_120")


def tensor_cores(*archs: str) -> list[str]:
    """Return the limits on tensor cores for these architectures."""
    return [limit for limit in TENSOR_CORES if limit.startswith(archs)]


@pytest.mark.gpuperf(
    limits=[
        "widest_load_bits == 128",
        "cp.async in copy_instructions",
        f"{TMA} not in copy_instructions",
    ]
)
@pytest.mark.parametrize(
    ("tile", "archs"),
    [
        pytest.param(SMALL_TILE, BEFORE_SM_120, id="small", marks=pytest.mark.gpuperf(limits=NO_SPILLS)),
        pytest.param(SHALLOW_TILE, ("sm_120",), id="shallow"),
    ],
)
def test_persistent(gpuperf: Gpuperf, tile: Tile, archs: tuple[str, ...]) -> None:
    gpuperf.limit(*tensor_cores(*archs))
    a, b, c = matrices(SMALL_K)
    gpuperf.static(
        persistent_kernel,
        constexprs={**blocks(tile), "GROUP_M": GROUP_ROWS, "PROGRAMS": PROGRAMS},
        args=(a, b, c, *SMALL_K, *a.stride(), *b.stride(), *c.stride()),
        archs=archs,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def compile_tma(gpuperf: Gpuperf, tile: Tile, archs: tuple[str, ...], *, specialise: bool) -> None:
    a, b, c = matrices(SMALL_K)
    gpuperf.static(
        persistent_tma_kernel,
        constexprs={
            **blocks(tile),
            "GROUP_M": GROUP_ROWS,
            "PROGRAMS": PROGRAMS,
            "SPECIALISE": specialise,
        },
        args=(*descriptors(a, b, c, tile), *SMALL_K),
        archs=archs,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


@pytest.mark.gpuperf(
    limits=[
        *NO_SPILLS,
        "block_size == 128",
        f"sm_80: {TMA} not in copy_instructions",
        f"sm_90: {TMA} in copy_instructions",
        f"sm_100: {TMA} in copy_instructions",
        *tensor_cores(*BEFORE_SM_120),
    ]
)
def test_tma_small_tile(gpuperf: Gpuperf) -> None:
    """Before Hopper there is only a fallback for TMA: loads of single elements, each with a mask."""
    compile_tma(gpuperf, SMALL_TILE, BEFORE_SM_120, specialise=False)


@pytest.mark.gpuperf(limits=["sm_90: block_size == 128", "sm_100: block_size > 128"])
def test_tma_small_tile_specialised(gpuperf: Gpuperf) -> None:
    """Blackwell gets more warps, which copy; on Hopper the compiler silently ignores the option."""
    compile_tma(gpuperf, SMALL_TILE, ("sm_90", "sm_100"), specialise=True)


@pytest.mark.gpuperf(limits=["spills == 0", *tensor_cores("sm_90", "sm_100")])
def test_tma_large_tile(gpuperf: Gpuperf) -> None:
    compile_tma(gpuperf, LARGE_TILE, ("sm_90", "sm_100"), specialise=False)


@pytest.mark.gpuperf(limits=["mma.sync in tensor_instructions", f"{TMA} in copy_instructions"])
@pytest.mark.parametrize("specialise", [False, True], ids=["all_warps", "specialised"])
def test_tma_shallow(gpuperf: Gpuperf, specialise: bool) -> None:
    compile_tma(gpuperf, SHALLOW_TILE, ("sm_120",), specialise=specialise)


@pytest.mark.gpuperf(limits=["spills == 0", "widest_load_bits == 128", *TENSOR_CORES])
def test_stream_k(gpuperf: Gpuperf) -> None:
    tile = LARGE_TILE
    a, b, _ = matrices(SMALL_MN)
    share, slots = share_of(SMALL_MN, tile)
    gpuperf.static(
        stream_k_kernel,
        constexprs={**blocks(tile), "SLOTS": slots},
        args=(a, b, parts(tile, slots), *SMALL_MN, *a.stride(), *b.stride(), share),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


@pytest.mark.gpuperf(limits=["spills == 0", "widest_load_bits == 128", "none in tensor_instructions"])
def test_sum_parts(gpuperf: Gpuperf) -> None:
    _, _, c = matrices(SMALL_MN)
    share, slots = share_of(SMALL_MN, LARGE_TILE)
    gpuperf.static(
        sum_parts_kernel,
        constexprs={**blocks(LARGE_TILE), "SLOTS": slots, "ROWS": ROWS_SUMMED},
        args=(parts(LARGE_TILE, slots), c, *SMALL_MN, *c.stride(), share),
    )


def share_of(shape: Shape, tile: Tile) -> tuple[int, int]:
    """Return the steps of a program, and the number of tiles that they can touch."""
    steps = -(-shape.k // tile.depth)
    share = -(-(-(-shape.m // tile.rows) * -(-shape.n // tile.columns)) * steps // PROGRAMS)
    return share, slots_of(share, steps)


def parts(tile: Tile, slots: int) -> torch.Tensor:
    return empty(PROGRAMS, slots, tile.rows, tile.columns)


@pytest.mark.gpuperf(
    limits=[
        "widest_load_bits == 128",
        "sm_90: mma.sync in tensor_instructions",
        "sm_90: wgmma not in tensor_instructions",
        "sm_100: mma.sync in tensor_instructions",
    ]
)
def test_few_rows(gpuperf: Gpuperf) -> None:
    """Hopper's instruction takes 64 rows, Blackwell's 64 or 128, so sixteen rows use Ampere's."""
    a, b, c = matrices(FEW_ROWS)
    gpuperf.static(
        matmul_kernel,
        constexprs={**blocks(FLAT_TILE), "GROUP_M": GROUP_ROWS},
        args=(a, b, c, *FEW_ROWS, *a.stride(), *b.stride(), *c.stride()),
        num_warps=FLAT_TILE.num_warps,
        num_stages=FLAT_TILE.num_stages,
    )


def compile_block_scaled(gpuperf: Gpuperf, form: Format, tile: Tile, archs: tuple[str, ...]) -> None:
    m, n, k = 8192, 8192, 1024
    a, b = (empty(rows, k // form.per_byte, dtype=torch.uint8) for rows in (m, n))
    a_scales, b_scales = (empty(rows, k // form.per_scale, dtype=form.scales) for rows in (m, n))
    c = empty(m, n, dtype=torch.float16)
    gpuperf.static(
        block_scaled_kernel,
        constexprs=constants(form, tile),
        args=arguments(a, b, c, a_scales, b_scales, form, tile),
        archs=archs,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


@pytest.mark.gpuperf(limits=[f"{TMA} in copy_instructions"])
@pytest.mark.parametrize("tile", BLOCK_SCALED_TILES, ids=str)
@pytest.mark.parametrize(
    ("form", "archs"),
    [
        pytest.param(MXFP8, WITH_TMA, id="mxfp8"),
        pytest.param(MXFP4, WITH_TMA, id="mxfp4"),
        # Triton 3.6 cannot convert its scales for tensor cores without the format.
        pytest.param(NVFP4, ("sm_100", "sm_120"), id="nvfp4"),
    ],
)
def test_block_scaled(gpuperf: Gpuperf, form: Format, archs: tuple[str, ...], tile: Tile) -> None:
    gpuperf.limit(*tensor_cores(*archs))
    compile_block_scaled(gpuperf, form, tile, archs)


@pytest.mark.gpuperf(limits=["mma.sync in tensor_instructions", f"{TMA} not in copy_instructions"])
def test_block_scaled_on_ampere(gpuperf: Gpuperf) -> None:
    """Triton converts E2M1 there, not E4M3; without TMA bytes are loaded one by one."""
    compile_block_scaled(gpuperf, MXFP4, BLOCK_SCALED_TILES[0], ("sm_80",))
