"""Tests of the exact doses of the gate's benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.gate_power import triton_kernels
from benchmarks.gate_power.kernels import DOSES_PERMILLE, KERNELS, Dosed, tiles
from benchmarks.gate_power.layers import ALL

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: kernel.name)
def test_doses_are_exact(kernel: Dosed) -> None:
    work = [kernel.work(dose) for dose in (0, 5, 10, 20, 50)]
    assert [count / work[0] for count in work] == pytest.approx([1, 1.005, 1.01, 1.02, 1.05], rel=1e-15)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_unrolled_loops_have_no_remainder(kernel: Dosed) -> None:
    assert all(kernel.work(dose) % kernel.unrolled == 0 for dose in DOSES_PERMILLE)


def test_rounded_dose_is_refused() -> None:
    kernel = Dosed("k", "iterations", 2100, lambda _processors, _most: lambda _count: print)
    assert kernel.work(10) == 2121
    with pytest.raises(ValueError, match="not a whole number of iterations"):
        kernel.work(5)


def test_loop_remainder_is_refused() -> None:
    kernel = Dosed("k", "iterations", 2000, lambda _processors, _most: lambda _count: print, unrolled=4)
    assert kernel.work(20) == 2040
    with pytest.raises(ValueError, match="2000 and 5"):
        kernel.work(5)


@pytest.mark.parametrize(
    ("processors", "shape"), [(132, (11, 12)), (148, (4, 37)), (114, (6, 19)), (7, (1, 7))]
)
def test_matrix_product_has_one_tile_per_multiprocessor(processors: int, shape: tuple[int, int]) -> None:
    assert tiles(processors) == shape


@pytest.mark.parametrize(
    ("name", "signature", "constants"),
    [
        ("arithmetic_kernel", "*fp32, i32", {"BLOCK": 256}),
        ("copy_kernel", "*fp32, *fp32", {"BLOCK": 1024}),
        ("row_sum_kernel", "*fp32, *fp32, i32, i32", {"BLOCK": 128}),
        ("histogram_kernel", "*i32, *i32, i32, i32", {"BLOCK": 128}),
        ("sparse_product_kernel", "*fp32, *fp32, *i64, *fp32", {"NONZEROS": 32, "WIDTH": 64}),
        (
            "matmul_kernel",
            "*bf16, *bf16, *bf16, i32, i32, i32, i32",
            {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64},
        ),
    ],
)
def test_kernels_compile_for_an_h200(
    name: str, signature: str, constants: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernel = getattr(triton_kernels, name)
    names = kernel.arg_names
    types = dict(zip(names, [*signature.split(", "), *("constexpr",) * len(constants)], strict=True))
    source = ASTSource(kernel, signature=types, constexprs=constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    assert compiled.asm["cubin"]
    assert compiled.metadata.shared <= 227 * 1024
