"""Read the resources of a kernel: registers, stack and spills through NVIDIA's own tools."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.static.kernel_record import Resources
from pytest_gpuperf.processes.cuda_toolkit import package_paths

if TYPE_CHECKING:
    from collections.abc import Mapping

_USAGE = re.compile(r"Function (?P<name>[\w$]+):\s*REG:(?P<registers>\d+) STACK:(?P<stack>\d+)")
_LOCAL = re.compile(r"\b(?:LDL|STL)(?P<modifiers>(?:\.\w+)*)")
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_REGISTER_BYTES = 4


def find_tool(name: str) -> Path:
    """Return the path of a tool that Triton brings, else of the one on PATH; Triton is not imported."""
    own = package_paths("triton", f"backends/nvidia/bin/{name}")
    return own[0] if own else Path(shutil.which(name) or name)


def read_cubin(cubin: bytes, kernel: str) -> Resources:
    """Read the resources of one kernel of a cubin.

    Spills are counted in the machine code: each instruction that stores to or loads from local memory counts
    once, regardless of how often it runs. `ptxas -v` counts the same, except that it leaves out the arguments
    of `printf`.

    Args:
        cubin: An ELF file for one architecture.
        kernel: Mangled name of an entry function.

    Raises:
        GpuperfError: The tools are missing or cannot read the cubin.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        found = _usage(run_tool("cuobjdump", path, "-res-usage"))
        if kernel not in found:
            raise GpuperfError(f"cuobjdump finds no {kernel} in its cubin")
        registers, stack = found[kernel]
        # Disassembling takes as long as compiling, and a kernel without a stack has spilled nothing.
        spills = spilled_bytes(run_tool("nvdisasm", path, "-c", "-ndf")) if stack else 0
    return Resources(registers=registers, stack_bytes=stack, spills=spills)


def _usage(text: str) -> Mapping[str, tuple[int, int]]:
    """Return registers and bytes of stack by kernel."""
    return {found["name"]: (int(found["registers"]), int(found["stack"])) for found in _USAGE.finditer(text)}


def spilled_bytes(sass: str) -> int:
    """Sum the bytes for each thread that all instructions of a listing move to and from local memory."""
    return sum(_width(found["modifiers"]) for found in _LOCAL.finditer(sass))


def _width(modifiers: str) -> int:
    return next((_WIDTHS[name] for name in modifiers.split(".") if name in _WIDTHS), _REGISTER_BYTES)


def run_tool(name: str, path: Path, *options: str) -> str:
    """Run a tool on a file with machine code, and return its output.

    Raises:
        GpuperfError: The tool is missing or cannot read the file.
    """
    command = [str(find_tool(name)), *options, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise GpuperfError(
            f"{name} cannot be run: {error.strerror}",
            expected="the tools that Triton brings, or those of a CUDA installation",
            next_step="reinstall triton, or put the CUDA toolkit's bin folder on PATH",
        ) from None
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip()).partition("\n")[0]
        raise GpuperfError(
            f"{name} cannot read the machine code: {reason}",
            next_step="install a newer Triton or CUDA toolkit, whose tools know the architecture",
        )
    return done.stdout
