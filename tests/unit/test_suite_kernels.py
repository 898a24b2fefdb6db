"""Facts of the suites' Triton kernels without a GPU."""

from __future__ import annotations

import re
from typing import Any

import pytest

triton = pytest.importorskip("triton")

from suites.kernels.gemm import GROUP_ROWS, TILES, Tile, matmul_kernel  # noqa: E402
from suites.kernels.square import (  # noqa: E402
    FIXED_BLOCK,
    block_of,
    square_blocks_kernel,
    square_kernel,
)

FLOATS = {"output_ptr": "*fp32", "input_ptr": "*fp32"}
HOPPER = triton.backends.compiler.GPUTarget("cuda", 90, 32)
HOPPER_SHARED_BYTES = 227 * 1024
"""Maximum for a block, from the table of compute capabilities in the CUDA programming guide."""


def compiled(kernel: Any, pointers: dict[str, str], constants: dict[str, int], **options: int) -> Any:
    """Compile a kernel as for a call whose pointers and integers are all multiples of 16."""
    names = kernel.arg_names
    types = {name: "constexpr" if name in constants else pointers.get(name, "i32") for name in names}
    source = triton.compiler.ASTSource(
        fn=kernel,
        signature=types,
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name not in constants},
    )
    return triton.compile(source, target=HOPPER, options=options)


@pytest.mark.parametrize("columns", [781, 1024, 4224, 8192])
def test_square_kernel_compiles_for_hopper(columns: int) -> None:
    block, num_warps = block_of(columns)
    kernel = compiled(square_kernel, FLOATS, {"BLOCK": block}, num_warps=num_warps)
    assert "st.global.v4.b32" in kernel.asm["ptx"], "stores are not vectorised"
    assert kernel.metadata.shared == 0


@pytest.mark.parametrize("kernel", [square_kernel, square_blocks_kernel], ids=lambda kernel: kernel.__name__)
def test_square_ptx_moves_four_floats_under_predicate(kernel: Any) -> None:
    ptx = compiled(kernel, FLOATS, {"BLOCK": FIXED_BLOCK}, num_warps=4).asm["ptx"]
    assert re.findall(r"\.(?:max|req)ntid (\d+)", ptx) == ["128"]
    accesses = re.findall(r"^\s*(.*\b(?:ld|st)\.global\S*)", ptx, re.MULTILINE)
    # Two loads a thread for 1024 elements; a load and its store share a predicate.
    loads = [f"@%p{number} ld.global.v4.b32" for number in (1, 2)]
    assert accesses == [*loads, *(load.replace("ld", "st") for load in loads)]


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_gemm_kernel_uses_hopper_tensor_cores_pipelined(tile: Tile) -> None:
    pointers = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*bf16")
    blocks = {"BLOCK_M": tile.rows, "BLOCK_N": tile.columns, "BLOCK_K": tile.depth, "GROUP_M": GROUP_ROWS}
    contiguous = dict.fromkeys(("stride_ak", "stride_bn", "stride_cn"), 1)
    kernel = compiled(
        matmul_kernel, pointers, blocks | contiguous, num_warps=tile.num_warps, num_stages=tile.num_stages
    )
    assert "wgmma.mma_async" in kernel.asm["ptx"]
    assert "cp.async" in kernel.asm["ptx"]
    assert kernel.metadata.shared <= HOPPER_SHARED_BYTES
