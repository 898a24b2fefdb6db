"""Virtual environments with a version each of a library of kernels, for comparisons with a fake GPU."""

from __future__ import annotations

import site
import venv
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

KERNELS = """
from fast_kernels import REGISTERS, TIME_US
from pytest_gpuperf.records import LaunchedCode, LaunchedKernel

def kernel():
    return TIME_US

launched = LaunchedKernel(name="copy_kernel", code="0" * 64, registers_per_thread=REGISTERS)
kernel.code = LaunchedCode(kernels=(launched,))
"""


def empty_environment(folder: Path) -> tuple[Path, Path]:
    """Make an environment without a package; return its Python, and the folder for packages."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    return folder / "bin" / "python", packages


def environment(folder: Path, version: int, time_us: float, registers: int = 32) -> Path:
    """Make an environment with `fast_kernels` and the packages of this one; return its Python."""
    python, packages = empty_environment(folder)
    (packages / "shared.pth").write_text("\n".join(site.getsitepackages()))
    (packages / "fast_kernels.py").write_text(f"TIME_US, REGISTERS = {time_us}, {registers}\n")
    metadata = packages / f"fast_kernels-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: fast-kernels\nVersion: {version}\n")
    return python
