"""Compile CUDA C++ with nvcc."""

from __future__ import annotations

import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.static.kernel_record import CudaOutput, CudaSource, shortened
from pytest_gpuperf.processes.children import version_of
from pytest_gpuperf.processes.cuda_toolkit import find_tool


class Nvcc(NamedTuple):
    """An installed nvcc."""

    path: str
    version: str
    """`13.0.88`."""


def find() -> Nvcc | None:
    """Return the nvcc on PATH or in the CUDA installation; None if no nvcc runs."""
    found = find_tool("nvcc")
    return _nvcc(found) if found else None


@lru_cache(maxsize=4)
def _nvcc(path: str) -> Nvcc | None:
    version = version_of(path, r"\bV(\d+(?:\.\d+)+)")
    return Nvcc(path, version) if version else None


def run(nvcc: Nvcc, source: CudaSource, arch: str) -> CudaOutput:
    """Compile a source.

    Raises:
        GpuperfError: The source does not compile.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = source.path
        if path is None:
            path = Path(folder, "kernel.cu")
            path.write_text(source.text, encoding="utf-8")
        cubin = Path(folder, "kernel.cubin")
        command = [
            *(nvcc.path, f"-arch={arch}", "-cubin", "-Xptxas=-v", *source.flags),
            *("--keep", "--keep-dir", folder, "-x", "cu", str(path), "-o", str(cubin)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        log = done.stdout + done.stderr
        if done.returncode:
            raise GpuperfError(f"nvcc does not compile the source for {arch}: {shortened(log)}")
        ptx = Path(folder, f"{path.stem}.ptx").read_text(encoding="utf-8")
        return CudaOutput(f"nvcc {nvcc.version}", log, ptx, cubin.read_bytes())
