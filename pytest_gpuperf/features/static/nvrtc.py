"""Compile CUDA C++ with NVRTC, a compiler as a library; wheels provide it on machines without a toolkit."""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import lru_cache

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.static.kernel_record import CudaOutput, CudaSource, shortened
from pytest_gpuperf.processes.cuda_toolkit import package_paths, toolkits


@lru_cache(maxsize=1)
def find() -> ctypes.CDLL | None:
    """Return the library of NVIDIA's wheels, of the CUDA installation or of the system; None without one."""
    installed = (path for root in toolkits() for path in sorted(root.glob("lib64/libnvrtc.so*")))
    # The packages `nvidia-*` are all below the folder `nvidia`.
    wheels = reversed(package_paths("nvidia", "*/lib/libnvrtc.so.*"))
    for name in (*wheels, *installed, ctypes.util.find_library("nvrtc")):
        if name is not None:
            try:
                return ctypes.CDLL(str(name))
            except OSError:
                continue
    return None


def run(library: ctypes.CDLL, source: CudaSource, arch: str) -> CudaOutput:
    """Compile a source.

    Raises:
        GpuperfError: The source does not compile.
    """
    program = ctypes.c_void_p()
    name = source.path.name if source.path else "kernel.cu"
    _check(
        library,
        library.nvrtcCreateProgram(ctypes.byref(program), source.text.encode(), name.encode(), 0, None, None),
    )
    folders = dict.fromkeys(path.parent for path in package_paths("nvidia", "*/include/cuda_fp16.h"))
    own = [f"-I{source.path.parent}"] if source.path else []
    options = [
        f"--gpu-architecture={arch}",
        "--ptxas-options=-v",
        *source.flags,
        *own,
        *(f"-I{folder}" for folder in folders),
    ]
    array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    try:
        status = library.nvrtcCompileProgram(program, len(options), array)
        log = _text(library, "ProgramLog", program)
        if status:
            raise GpuperfError(f"NVRTC does not compile the source for {arch}: {shortened(log)}")
        major, minor = ctypes.c_int(), ctypes.c_int()
        _check(library, library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return CudaOutput(
            f"nvrtc {major.value}.{minor.value}",
            log,
            _text(library, "PTX", program),
            _bytes(library, "CUBIN", program),
        )
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> str:
    return _bytes(library, what, program).rstrip(b"\0").decode(errors="replace")


def _bytes(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _check(library, getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(library, getattr(library, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _check(library: ctypes.CDLL, status: int) -> None:
    if status:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise GpuperfError(f"NVRTC fails: {library.nvrtcGetErrorString(status).decode()}")
