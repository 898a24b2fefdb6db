"""Compile CUDA C++ with nvcc, and keep its output until the source or an included file changes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.static.kept import Kept
from pytest_gpuperf.features.static.kernel import Compiled, CudaOutput, CudaSource, shortened
from pytest_gpuperf.processes.children import version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Nvcc(NamedTuple):
    """An installed nvcc."""

    path: str
    version: str
    """`13.0.88`."""


class _Entry(msgspec.Struct, frozen=True):
    """Kept result of one compilation."""

    included: list[str]
    """Files that the source includes."""
    digest: str
    """Digest of their contents."""
    kernels: list[Compiled]


def find() -> Nvcc | None:
    """Return the nvcc on PATH or in the CUDA installation; None if no nvcc runs."""
    roots = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    found = shutil.which("nvcc") or next(
        (hit for root in roots if root and (hit := shutil.which(f"{root}/bin/nvcc"))), None
    )
    return _nvcc(found) if found else None


@lru_cache(maxsize=4)
def _nvcc(path: str) -> Nvcc | None:
    version = version_of(path, r"\bV(\d+(?:\.\d+)+)")
    return Nvcc(path, version) if version else None


def compile_kept(
    nvcc: Nvcc, source: CudaSource, arch: str, state: Path, read: Callable[[CudaOutput], list[Compiled]]
) -> list[Compiled]:
    """Return the kernels of a source; compile only if `<state>/static/` does not have a fitting result.

    Args:
        nvcc: The compiler.
        source: The source.
        arch: An architecture such as `sm_90`.
        state: The project's `.gpuperf` folder.
        read: Turns nvcc's output into kernels.

    Raises:
        GpuperfError: The source does not compile.
    """
    path = str(source.path or "")
    kept = Kept(state, "nvcc", nvcc.version, nvcc.path, arch, path, source.text, *source.flags)
    entry = kept.load(_Entry)
    if entry is not None and entry.digest == _digest(entry.included):
        return entry.kernels
    with tempfile.TemporaryDirectory() as folder:
        output, included = _run(nvcc, source, arch, Path(folder))
    kernels = read(output)
    digest = _digest(included)
    if digest:
        kept.store(_Entry(included, digest, kernels))
    return kernels


def _run(nvcc: Nvcc, source: CudaSource, arch: str, folder: Path) -> tuple[CudaOutput, list[str]]:
    path = source.path
    if path is None:
        path = folder / "kernel.cu"
        path.write_text(source.text, encoding="utf-8")
    cubin, included = folder / "kernel.cubin", folder / "included"
    command = [
        *(nvcc.path, f"-arch={arch}", "-cubin", "-Xptxas=-v", *source.flags),
        *("--keep", "--keep-dir", str(folder), "-MMD", "-MF", str(included)),
        *("-x", "cu", str(path), "-o", str(cubin)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    log = done.stdout + done.stderr
    if done.returncode:
        raise GpuperfError(f"nvcc does not compile the source for {arch}: {shortened(log)}")
    ptx = (folder / f"{path.stem}.ptx").read_text(encoding="utf-8")
    names = included.read_text(encoding="utf-8").partition(" : ")[2].replace("\\\n", " ").split()
    output = CudaOutput(f"nvcc {nvcc.version}", log, ptx, cubin.read_bytes())
    return output, [name for name in names if name != str(path)]


def _digest(paths: Iterable[str]) -> str:
    """Return a digest of files' contents; empty if one cannot be read, such as a name with a space."""
    try:
        contents = [Path(path).read_bytes() for path in paths]
    except OSError:
        return ""
    return hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in contents)).hexdigest()
