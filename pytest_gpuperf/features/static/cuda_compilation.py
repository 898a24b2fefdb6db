"""Compile CUDA C++ for any architecture without a GPU: with nvcc, or with NVRTC if there is no nvcc."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError, NoCompilerError
from pytest_gpuperf.features.static import nvcc, nvrtc
from pytest_gpuperf.features.static.kernel_record import (
    Compiled,
    CudaOutput,
    CudaSource,
    compute_capability,
    static_kernel,
)
from pytest_gpuperf.features.static.ptx_reader import read_ptx
from pytest_gpuperf.features.static.ptxas_log import read_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.static.ptx_reader import PtxKernel
    from pytest_gpuperf.records import StaticKernel


def compile_cuda(
    source: str | Path,
    archs: Sequence[str],
    *,
    entry: str = "",
    block_size: int = 0,
    shared_memory: int = 0,
    flags: Sequence[str] = (),
) -> dict[str, StaticKernel]:
    """Compile one kernel of a CUDA source for each architecture.

    Args:
        source: The text, or the path of a file.
        archs: `sm_90`, or `sm_90a` if the source has instructions of that architecture alone.
        entry: Regex found in the mangled name of the kernel; required if there are several.
        block_size: Threads of a block; by default those of `__launch_bounds__`.
        shared_memory: Dynamic shared memory of a launch, in bytes.
        flags: Passed to the compiler: `-O3`, `-Iinclude`.

    Raises:
        NoCompilerError: Neither nvcc nor NVRTC was found.
        GpuperfError: The source cannot be read or compiled, or has no such kernel.
    """
    given = _source(source, flags)
    kernels = {}
    for arch in archs:
        compute_capability(arch)
        output = _compile(given, arch)
        ptx = _choose(read_ptx(output.ptx), entry)
        threads = block_size or ptx.threads
        if not threads:
            raise GpuperfError(
                f"the block size of {ptx.name} is unknown",
                expected="block_size= in the call, or __launch_bounds__ on the kernel",
            )
        resources, barriers = read_log(output.log)[ptx.name]
        # ptxas knows the barriers, also those whose number is no constant.
        compiled = Compiled(output.compiler, replace(ptx, barriers=barriers), resources, output.cubin)
        kernels[arch] = static_kernel(compiled, arch, block_size=threads, dynamic_bytes=shared_memory)
    return kernels


def _source(source: str | Path, flags: Sequence[str]) -> CudaSource:
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return CudaSource(source, None, tuple(flags))
    path = Path(source)
    try:
        return CudaSource(path.read_text(encoding="utf-8"), path, tuple(flags))
    except OSError as error:
        raise GpuperfError(
            f"{path} cannot be read: {error.strerror}",
            expected="CUDA source, as a text or the path of a file",
        ) from None


def _compile(source: CudaSource, arch: str) -> CudaOutput:
    compiler = nvcc.find()
    if compiler is not None:
        return nvcc.run(compiler, source, arch)
    library = nvrtc.find()
    if library is not None:
        return nvrtc.run(library, source, arch)
    raise NoCompilerError(
        "there is no compiler for CUDA source",
        expected="nvcc on PATH or in CUDA_HOME, or NVRTC",
        next_step="install the CUDA toolkit, or pip install nvidia-cuda-nvrtc",
    )


def _choose(kernels: Sequence[PtxKernel], entry: str) -> PtxKernel:
    try:
        found = [kernel for kernel in kernels if re.search(entry, kernel.name)]
    except (re.error, OverflowError) as error:
        raise GpuperfError(f"entry={entry!r} is a broken regex: {error}", expected="a Python regex") from None
    if len(found) == 1:
        return found[0]
    names = ", ".join(kernel.name for kernel in found or kernels) or "none"
    raise GpuperfError(
        f"{len(found) or 'no'} kernels of the source match entry={entry!r}",
        expected="exactly one",
        next_step=f"choose among these mangled names: {names}",
    )
