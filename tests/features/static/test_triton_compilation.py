"""Triton kernels, really compiled for GPUs that the machine lacks."""

from __future__ import annotations

import re
import subprocess
from inspect import signature
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any

import pytest
import torch

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402
from triton.backends.nvidia import compiler as nvidia  # noqa: E402
from triton.runtime.driver import driver  # noqa: E402

from pytest_gpuperf.errors import GpuperfError  # noqa: E402
from pytest_gpuperf.features.static import triton_compilation  # noqa: E402
from pytest_gpuperf.records.static_profiles import ARCHITECTURES  # noqa: E402
from suites.kernels.gemm import matmul_kernel  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


MATMUL = {
    **dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*bf16:16"),
    **dict.fromkeys(("M", "N", "K", "stride_am", "stride_bk", "stride_cm"), "i32:16"),
    **dict.fromkeys(("stride_ak", "stride_bn", "stride_cn"), "i32:1"),
}
TILE = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8}


@triton.jit  # type: ignore[untyped-decorator]
def scale(x_ptr, factor, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, x * factor, mask=offsets < n)


@triton.jit  # type: ignore[untyped-decorator]
def annotated(x_ptr, n: tl.int8, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) + n)


@triton.autotune(configs=[triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 512})], key=["n"])  # type: ignore[untyped-decorator]
@triton.heuristics({"EVEN": lambda values: values["n"] % values["BLOCK"] == 0})  # type: ignore[untyped-decorator]
@triton.jit  # type: ignore[untyped-decorator]
def tuned(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 1.0, mask=True if EVEN else offsets < n)


@triton.jit  # type: ignore[untyped-decorator]
def broken(x_ptr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    tl.store(x_ptr + tl.arange(0, BLOCK), no_such_name)  # type: ignore[name-defined]  # noqa: F821


def test_each_architecture_uses_its_tensor_instructions(compiled: Any) -> None:
    kernels = compiled(matmul_kernel, ARCHITECTURES, signature=MATMUL, constexprs=TILE)
    assert {arch: kernel.tensor_instructions for arch, kernel in kernels.items()} == {
        "sm_80": ("mma.sync",),
        "sm_90": ("wgmma",),
        "sm_100": ("tcgen05",),
        "sm_120": ("mma.sync",),
    }
    for arch, kernel in kernels.items():
        assert (kernel.name, kernel.arch, kernel.block_size) == ("matmul_kernel", arch, 128)
        assert 16 < kernel.registers_per_thread <= 255
        assert kernel.shared_memory_bytes > 0
        assert kernel.widest_load_bits == 128
        assert kernel.code_bytes > 1000
        assert re.fullmatch(rf"triton {re.escape(triton.__version__)}, PTX \d+\.\d", kernel.compiler)


def source_of(folder: Path, comment: str = "", factor: str = "2.0") -> Any:
    text = f"""
import triton
import triton.language as tl
{comment}
@triton.jit
def twice(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * {factor})
"""
    path = folder / f"made_{len(list(folder.glob('*.py')))}.py"
    path.write_text(text)
    return run_path(str(path))["twice"]


def test_code_hash_ignores_comments_and_paths(compiled: Any, tmp_path: Path) -> None:
    given: dict[str, Any] = {"signature": {"x_ptr": "*fp32:16"}, "constexprs": {"BLOCK": 128}}
    kernels = [source_of(tmp_path), source_of(tmp_path, "# a\n# b"), source_of(tmp_path, factor="3.0")]
    first, commented, changed = (compiled(kernel, **given)["sm_90"] for kernel in kernels)
    assert re.fullmatch("[0-9a-f]{64}", first.code)
    assert first.code == commented.code
    # The same size and registers, and another constant.
    assert first.code_bytes == changed.code_bytes
    assert first.registers_per_thread == changed.registers_per_thread
    assert first.code != changed.code


def test_arguments_and_types_give_the_same_kernel(compiled: Any) -> None:
    x = torch.empty(1024, device="meta")
    of_arguments = compiled(scale, args=(x, 0.5, 1024), constexprs={"BLOCK": 1024})
    by_name = compiled(scale, args={"n": 1024, "x_ptr": x, "factor": 0.5}, constexprs={"BLOCK": 1024})
    types = {"x_ptr": "*fp32:16", "factor": "fp32", "n": "i32:16", "BLOCK": "constexpr"}
    assert of_arguments == by_name == compiled(scale, signature=types, constexprs={"BLOCK": 1024})


@pytest.mark.parametrize(
    ("args", "bits"),
    [
        ((torch.empty(1024, device="meta"), 0.5, 1024), 128),
        # A view without the first element does not begin at a multiple of 16 bytes.
        ((torch.empty(1025, device="meta")[1:], 0.5, 1024), 32),
        ((torch.empty(1024, device="meta"), 0.5, 1023), 32),
        ((torch.empty(1024, device="meta", dtype=torch.float16), 0.5, 1024), 128),
    ],
)
def test_alignment_is_taken_from_the_arguments(compiled: Any, args: Any, bits: int) -> None:
    assert compiled(scale, args=args, constexprs={"BLOCK": 1024})["sm_90"].widest_load_bits == bits


def test_an_annotated_argument_can_be_of_any_type(compiled: Any) -> None:
    types = {"x_ptr": "*i8:16", "n": "i8"}
    assert compiled(annotated, signature=types, constexprs={"BLOCK": 128})["sm_90"].name == "annotated"


def test_autotuning_and_heuristics_are_skipped(compiled: Any) -> None:
    types = {"x_ptr": "*fp32", "n": "i32"}
    made = compiled(tuned, signature=types, constexprs={"BLOCK": 256, "EVEN": True}, num_warps=8)
    assert made["sm_90"].block_size == 256
    with pytest.raises(GpuperfError, match=r"no value for BLOCK, EVEN; .*constexprs=.*autotuning"):
        compiled(tuned, signature=types)


def test_spills_equal_the_count_of_ptxas(compiled: Any, tmp_path: Path) -> None:
    tile = {**TILE, "BLOCK_M": 128, "BLOCK_N": 128}
    made = compiled(matmul_kernel, ("sm_80",), signature=MATMUL, constexprs=tile, maxnreg=64)["sm_80"]
    assert made.registers_per_thread == 64
    with triton_compilation.elsewhere(), triton_compilation.pretend(triton_compilation.target_of("sm_80")):
        values = triton_compilation.arguments(matmul_kernel, MATMUL, None, tile)
        ptx = matmul_kernel.warmup(grid=(1,), **values, maxnreg=64).asm["ptx"]
    (tmp_path / "kernel.ptx").write_text(ptx)
    ptxas = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    source, cubin = str(tmp_path / "kernel.ptx"), str(tmp_path / "kernel.cubin")
    command = [str(ptxas), "-v", "--gpu-name=sm_80", source, "-o", cubin]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    counts = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", said)
    assert counts is not None
    assert made.spills == int(counts[2]) + int(counts[3]) > 0
    assert made.stack_bytes == int(counts[1])


def test_block_too_large_for_an_sm_is_an_error(compiled: Any) -> None:
    tile = {**TILE, "BLOCK_M": 128, "BLOCK_N": 128}
    with pytest.raises(
        GpuperfError,
        match=r"matmul_kernel cannot be launched on sm_120: a block of [\d,]+ bytes of shared memory "
        r"fits on no SM of compute capability 12\.0; expected at most 101,376",
    ):
        compiled(matmul_kernel, ("sm_120",), signature=MATMUL, constexprs=tile, num_stages=8)


def test_compile_error_names_reason_and_architecture(compiled: Any) -> None:
    with pytest.raises(GpuperfError, match=r"(?s)broken does not compile for sm_90: .*no_such_name"):
        compiled(broken, signature={"x_ptr": "*fp32"}, constexprs={"BLOCK": 128})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "scale has no arguments; expected signature=.* or args="),
        ({"signature": {"x_ptr": "*fp32"}, "args": ()}, "scale has both signature= and args="),
        ({"signature": {"x_ptr": "*fp32", "n": "i32"}, "constexprs": {"BLOCK": 64}}, "no value for factor"),
        ({"args": (1, 2, 3, 4), "constexprs": {"BLOCK": 64}}, "4 arguments for scale; expected 3: x_ptr"),
        ({"args": (1, 2, 3), "constexprs": {"BLOK": 64}}, "scale has no argument 'BLOK'; expected"),
        ({"signature": {"x_ptr": "*fp32", "factor": "fp17", "n": "i32"}}, "type of factor is 'fp17'"),
        ({"archs": ("sm90",)}, "the architecture 'sm90'; expected one such as 'sm_90'"),
        ({"archs": ("sm_61",)}, "occupancy table does not have"),
        ({"num_warp": 8}, "scale does not compile for sm_90: .*num_warp"),
    ],
)
def test_bad_input_is_one_clear_error(compiled: Any, given: dict[str, Any], said: str) -> None:
    whole = given
    if not {"signature", "args"} & given.keys() and given:
        types = {"x_ptr": "*fp32", "factor": "fp32", "n": "i32"}
        whole = {"signature": types, "constexprs": {"BLOCK": 64}, **given}
    with pytest.raises(GpuperfError, match=f"(?s){said}"):
        compiled(scale, **whole)


def test_an_interpreted_kernel_is_not_compiled(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(GpuperfError, match="unset TRITON_INTERPRET"):
        compiled(triton.jit(scale.fn), args=())


def test_old_triton_is_refused_for_blackwell(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "__version__", "3.2.0")
    with pytest.raises(GpuperfError, match=r"triton 3\.2\.0 cannot compile for sm_100; expected triton 3\.3"):
        compiled(matmul_kernel, ("sm_100",), signature=MATMUL, constexprs=TILE)


def test_driver_is_restored(compiled: Any) -> None:
    before = dict(vars(driver))
    compiled(scale, args=(torch.empty(8, device="meta"), 2.0, 8), constexprs={"BLOCK": 128})
    with pytest.raises(GpuperfError):
        compiled(broken, signature={"x_ptr": "*fp32"}, constexprs={"BLOCK": 128})
    assert vars(driver) == before


@pytest.fixture
def another_ptxas(tmp_path: Path) -> Path:
    """Make a ptxas of another version that compiles nothing."""
    path = tmp_path / "torch/bin/ptxas"
    path.parent.mkdir(parents=True)
    path.write_text(
        "#!/bin/sh\n[ $1 = --version ] || exit 1\necho Cuda compilation tools, release 11.8, V11.8.1\n"
    )
    path.chmod(0o755)
    return path


def forget_ptxas() -> None:
    """Make Triton look for ptxas again, as a new process does."""
    scale.device_caches.clear()
    for one in vars(nvidia).values():
        getattr(one, "cache_clear", lambda: None)()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Leave Triton no compiled kernel, neither in memory nor on the disk."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    forget_ptxas()
    yield tmp_path / "cache"
    forget_ptxas()


@pytest.fixture
def compile_scale(compiled: Any, cache: Path) -> Callable[[], set[str]]:
    """Compile as a new process would, and list what Triton's cache has then."""

    def compile_it() -> set[str]:
        scale.device_caches.clear()
        compiled(scale, ("sm_80",), args=(torch.empty(8, device="meta"), 2.0, 8), constexprs={"BLOCK": 128})
        return {path.name for path in cache.iterdir()}

    return compile_it


@pytest.fixture
def _after_torch_compile(another_ptxas: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set another ptxas, as torch.compile does, and let Triton keep its version, as a launch does."""
    monkeypatch.setattr(torch, "__file__", str(another_ptxas.parents[1] / "__init__.py"))
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(another_ptxas))
    version_of_ptxas()


def version_of_ptxas() -> str:
    found: str = nvidia.get_ptxas_version(*[80] * len(signature(nvidia.get_ptxas_version).parameters))
    return found


@pytest.mark.usefixtures("_after_torch_compile")
def test_the_ptxas_that_torch_compile_sets_does_not_count(
    compile_scale: Callable[[], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "11.8" in version_of_ptxas()
    made = compile_scale()
    assert "11.8" not in version_of_ptxas()
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    forget_ptxas()
    assert compile_scale() == made


def test_the_ptxas_that_a_person_sets_counts(
    another_ptxas: Path, compile_scale: Callable[[], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(another_ptxas))
    with pytest.raises(GpuperfError, match="does not compile"):
        compile_scale()


class Disturbed:
    """A kernel whose first compilations end with an error, raised from another one."""

    def __init__(self, errors: list[BaseException]) -> None:
        self.errors = errors

    def warmup(self, **_: object) -> str:
        if self.errors:
            try:
                raise self.errors.pop()
            except BaseException as error:
                raise RuntimeError("in a function that the kernel calls") from error
        return "compiled"


def test_source_is_parsed_again_after_a_fault_of_python() -> None:
    fault = "AST constructor recursion depth mismatch (before=27, after=29)"
    kernel = Disturbed([SystemError(fault), SystemError(fault)])
    assert triton_compilation._warm_up(kernel, {}) == "compiled"
