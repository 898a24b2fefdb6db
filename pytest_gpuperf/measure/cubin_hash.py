"""The sections of a cubin, and the hash of a kernel's code in it."""

from __future__ import annotations

import hashlib
import struct
from functools import cached_property
from typing import NamedTuple

_NO_BITS = 8
"""Type of a section without content in the file."""


class CubinSection(NamedTuple):
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
    def sections(self) -> list[CubinSection]:
        """All sections, sorted by name."""
        data = self._data
        first_name, _ = self._bounds_of_names
        found = []
        for index in range(self._headers[2]):
            name, kind, start, length, _, info = self._header(index)
            begin = first_name + name
            title = data[begin : data.index(b"\0", begin)].decode(errors="replace")
            found.append(CubinSection(title, info, start, 0 if kind == _NO_BITS else length))
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

    def content(self, section: CubinSection) -> bytes:
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
