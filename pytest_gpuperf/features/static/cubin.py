"""Read a cubin: registers, stack and spills through NVIDIA's own tools, code size from its sections."""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.static.kept import Kept
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


def find_tool(name: str) -> Path:
    """Return the path of a tool that Triton brings, else of the one on PATH; Triton is not imported."""
    triton = None
    with suppress(ValueError):  # a stand-in, which some tests put in its place
        triton = find_spec("triton")
    for folder in (triton.submodule_search_locations or ()) if triton else ():
        path = Path(folder, "backends", "nvidia", "bin", name)
        if path.exists():
            return path
    return Path(shutil.which(name) or name)


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
        found = _usage(run_tool(tools.cuobjdump, path, "-res-usage"))
        if kernel not in found:
            raise GpuperfError(f"{tools.cuobjdump.name} finds no {kernel} in its cubin")
        registers, stack = found[kernel]
        # Disassembling takes as long as compiling, and a kernel without a stack has spilled nothing.
        spills = spilled_bytes(run_tool(tools.nvdisasm, path, "-c", "-ndf")) if stack else 0
    return Resources(
        registers=registers,
        stack_bytes=stack,
        spills=spills,
        code_bytes=len(Cubin(cubin).instructions(kernel)),
    )


def _usage(text: str) -> Mapping[str, tuple[int, int]]:
    """Return registers and bytes of stack by kernel."""
    return {found["name"]: (int(found["registers"]), int(found["stack"])) for found in _USAGE.finditer(text)}


def spilled_bytes(sass: str) -> int:
    """Sum the bytes for each thread that all instructions of a listing move to and from local memory."""
    return sum(_width(found["modifiers"]) for found in _LOCAL.finditer(sass))


def _width(modifiers: str) -> int:
    return next((_WIDTHS[name] for name in modifiers.split(".") if name in _WIDTHS), _REGISTER_BYTES)


class Section(NamedTuple):
    """One section of a cubin."""

    name: str
    info: int
    start: int
    length: int


class Cubin:
    """The sections of a cubin, which libraries make with thousands of kernels: each is read when needed.

    The section headers have the form of ELF-64, little-endian (System V ABI, "Section Header").

    Args:
        data: The file.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    @cached_property
    def sections(self) -> list[Section]:
        """All sections, sorted by name."""
        data = self._data
        first_name, _ = self._bounds_of_names
        found = []
        for index in range(self._headers[2]):
            name, kind, start, length, _, info = self._header(index)
            begin = first_name + name
            title = data[begin : data.index(b"\0", begin)].decode(errors="replace")
            found.append(Section(title, info, start, 0 if kind == _NO_BITS else length))
        return sorted(found)

    @cached_property
    def _headers(self) -> tuple[int, int, int, int]:
        """Place and size of the section headers, their number, and the index of the section of names."""
        return struct.unpack_from("<Q10xHHH", self._data, 0x28)

    def _header(self, index: int) -> tuple[int, ...]:
        place, size, _, _ = self._headers
        return struct.unpack_from("<II16xQQII", self._data, place + size * index)

    @cached_property
    def _bounds_of_names(self) -> tuple[int, int]:
        """Begin and end of the names of all sections; an empty range in a file that ends before."""
        try:
            _, _, begin, length, _, _ = self._header(self._headers[3])
        except struct.error:
            return 0, 0
        return begin, begin + length

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(section.name for section in self.sections)

    def content(self, section: Section) -> bytes:
        """Return the bytes of a section; none if it has none in the file."""
        return self._data[section.start : section.start + section.length]

    def has(self, kernel: str) -> bool:
        """Return True if a kernel is in the cubin."""
        # A search in the names is quicker than to read all sections, and one in the whole file takes seconds
        # in a run of many tests.
        name = f".text.{kernel}"
        begin = self._data.find(f"{name}\0".encode(), *self._bounds_of_names)
        return begin >= 0 and self.is_entry(kernel) and name in self._names

    def is_entry(self, function: str) -> bool:
        """Return True if a function is a kernel, which has parameters in a section of its own."""
        return f".nv.constant0.{function}" in self._names

    def instructions(self, kernel: str) -> bytes:
        """Return the machine code of a kernel."""
        return b"".join(map(self.content, (one for one in self.sections if one.name == f".text.{kernel}")))

    def registers(self, kernel: str) -> int:
        """Return the registers of a thread; 0 if this kind of cubin has them elsewhere."""
        return max((one.info >> 24 for one in self.sections if one.name == f".text.{kernel}"), default=0)

    def code_hash(self, kernel: str) -> str:
        """Return the SHA-256 of a kernel's machine code: instructions, constants and attributes.

        Symbols, PTX and line numbers are left out, so a new comment or path in the source changes nothing.
        Constants and functions that several kernels of a cubin share count for each of them.
        """
        digest = hashlib.sha256()
        for section in self.sections:
            name = section.name
            is_code = name.startswith(".text.")
            shared = name.startswith((".nv.global", ".nv.constant3", ".nv.constant4"))
            of_function = is_code and not self.is_entry(name.removeprefix(".text."))
            attributes = name == f".nv.info.{kernel}" or (
                name.startswith(".nv.constant") and name.endswith(f".{kernel}")
            )
            if name == f".text.{kernel}" or shared or of_function or attributes:
                data = self.content(section)
                # Some cubins have the number of registers in the highest byte; the rest is a symbol.
                registers = section.info >> 24 if is_code else 0
                digest.update(f"{name} {registers} {len(data)} ".encode() + data)
        return digest.hexdigest()


def run_tool(tool: Path, path: Path, *options: str) -> str:
    """Run a tool on a file with machine code, and return its output.

    Raises:
        GpuperfError: The tool is missing or cannot read the file.
    """
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
            f"{tool.name} cannot read the machine code: {reason}",
            next_step="install a newer Triton or CUDA toolkit, whose tools know the architecture",
        )
    return done.stdout
