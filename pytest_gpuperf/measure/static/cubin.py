"""Read a cubin: registers, stack and spills through NVIDIA's own tools, code size from its sections."""

from __future__ import annotations

import hashlib
import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.static.kept import Kept
from pytest_gpuperf.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

_USAGE = re.compile(r"Function (?P<name>[\w$]+):\s*REG:(?P<registers>\d+) STACK:(?P<stack>\d+)")
_LOCAL = re.compile(r"\b(?:LDL|STL)(?P<modifiers>(?:\.\w+)*)")
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_REGISTER_BYTES = 4
_NO_BITS = 8
"""Type of a section without content in the file."""


@dataclass(frozen=True)
class CubinTools:
    """Paths of `cuobjdump` and `nvdisasm`; both have to know the architecture."""

    cuobjdump: Path
    nvdisasm: Path


class Resources(Record, frozen=True, kw_only=True):
    """Resources of one kernel."""

    registers: int
    """Registers of a thread."""
    stack_bytes: int
    """Local memory of a thread."""
    spills: int
    """Bytes that the code of a thread stores to and loads from its stack."""
    code_bytes: int


def read_cubin(cubin: bytes, kernel: str, tools: CubinTools, state: Path) -> Resources:
    """Read the resources of one kernel of a cubin.

    Spills are counted in the machine code: each instruction that stores to or loads from local memory counts
    once, regardless of how often it runs. `ptxas -v` counts the same, except that it leaves out the arguments
    of `printf`.

    Args:
        cubin: An ELF file for one architecture.
        kernel: Mangled name of an entry function.
        tools: Tools that read the cubin.
        state: The project's `.gpuperf` folder, which keeps the result.

    Raises:
        GpuperfError: The tools are missing or cannot read the cubin.
    """
    kept = Kept(state, "cubin", kernel, cubin)
    resources = kept.load(Resources)
    if resources is None:
        resources = _read(cubin, kernel, tools)
        kept.store(resources)
    return resources


def _read(cubin: bytes, kernel: str, tools: CubinTools) -> Resources:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        found = _usage(_run(tools.cuobjdump, path, "-res-usage"))
        if kernel not in found:
            raise GpuperfError(f"{tools.cuobjdump.name} finds no {kernel} in its cubin")
        registers, stack = found[kernel]
        # Disassembling takes as long as compiling, and a kernel without a stack has spilled nothing.
        spills = spilled_bytes(_run(tools.nvdisasm, path, "-c", "-ndf")) if stack else 0
    return Resources(
        registers=registers, stack_bytes=stack, spills=spills, code_bytes=code_bytes(cubin, kernel)
    )


def _usage(text: str) -> Mapping[str, tuple[int, int]]:
    """Return registers and bytes of stack by kernel."""
    return {found["name"]: (int(found["registers"]), int(found["stack"])) for found in _USAGE.finditer(text)}


def spilled_bytes(sass: str) -> int:
    """Sum the bytes for each thread that all instructions of a listing move to and from local memory."""
    return sum(_width(found["modifiers"]) for found in _LOCAL.finditer(sass))


def _width(modifiers: str) -> int:
    return next((_WIDTHS[name] for name in modifiers.split(".") if name in _WIDTHS), _REGISTER_BYTES)


def code_bytes(cubin: bytes, kernel: str) -> int:
    """Return the size of a kernel's machine code.

    The section headers have the form of ELF-64, little-endian (System V ABI, "Section Header").
    """
    return sum(len(data) for name, _, data in sections(cubin) if name == f".text.{kernel}")


def code_hash(cubin: bytes, kernel: str) -> str:
    """Return the SHA-256 of a kernel's machine code: instructions, constants and attributes.

    Symbols, PTX and line numbers are left out, so a new comment or path in the source changes nothing.
    Constants and functions that several kernels of a cubin share count for each of them.
    """
    digest = hashlib.sha256()
    for name, info, data in sorted(sections(cubin)):
        shared = name.startswith((".nv.global", ".nv.constant3", ".nv.constant4"))
        of_function = name.startswith(".text.") and not _is_entry(cubin, name)
        attributes = name == f".nv.info.{kernel}" or (
            name.startswith(".nv.constant") and name.endswith(f".{kernel}")
        )
        if name == f".text.{kernel}" or shared or of_function or attributes:
            # Some cubins have the number of registers in the highest byte; the rest is a symbol.
            registers = info >> 24 if name.startswith(".text.") else 0
            digest.update(f"{name} {registers} {len(data)} ".encode() + data)
    return digest.hexdigest()


def _is_entry(cubin: bytes, text: str) -> bool:
    """Return True if the code is a kernel, which has parameters in a section of its own."""
    wanted = f".nv.constant0.{text.removeprefix('.text.')}"
    return any(name == wanted for name, _, _ in sections(cubin))


def sections(cubin: bytes) -> list[tuple[str, int, bytes]]:
    """Return name, info and content of each section."""
    table, size, count, names = struct.unpack_from("<Q10xHHH", cubin, 0x28)
    headers = [struct.unpack_from("<II16xQQII", cubin, table + size * index) for index in range(count)]
    first_name = headers[names][2]
    found = []
    for name, kind, start, length, _, info in headers:
        begin = first_name + name
        title = cubin[begin : cubin.index(b"\0", begin)].decode(errors="replace")
        found.append((title, info, b"" if kind == _NO_BITS else cubin[start : start + length]))
    return found


def _run(tool: Path, path: Path, *options: str) -> str:
    command = [str(tool), *options, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise GpuperfError(
            f"{tool.name} cannot be run: {error.strerror}",
            expected="the tools that Triton brings, or those of a CUDA installation",
            next_step="reinstall triton, or put the CUDA toolkit's bin folder on PATH",
        ) from None
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip()).partition("\n")[0]
        raise GpuperfError(
            f"{tool.name} cannot read the cubin: {reason}",
            next_step="install a newer Triton or CUDA toolkit, whose tools know the architecture",
        )
    return done.stdout
