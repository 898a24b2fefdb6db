"""Read a kernel's PTX: instructions that multiply and copy, the widest load, threads and barriers.

Names and operands follow the PTX ISA 9.0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.device.occupancy import BLOCK_BARRIERS
from pytest_gpuperf.records.base import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

TENSOR_INSTRUCTIONS = {
    "mma.sync": r"mma(?:\.sp(?:::\w+)?)?\.sync",
    "wmma": r"wmma\.mma\.sync",
    "wgmma": r"wgmma\.mma_async",
    "tcgen05": r"tcgen05\.mma",
}
"""Regex of each family's multiplications, by the family's name in limits."""
COPY_INSTRUCTIONS = {
    "cp.async": r"cp\.async\.c[ag]",
    "cp.async.bulk": r"cp\.async\.bulk\.(?:shared|global)",
    "cp.async.bulk.tensor": r"cp\.async\.bulk\.tensor",
}
"""The same for copies past the registers; the last is TMA with a descriptor of the tensor."""
BULK_BITS = 128
"""A bulk copy (TMA) moves whole boxes; this is the minimum that it moves at once."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_VERSION = re.compile(r"^\.version\s+(\S+)", re.MULTILINE)
_FUNCTION = re.compile(r"\.(?P<kind>entry|func)\s+(?:\([^)]*\)\s*)?(?P<name>[\w$]+)")
_THREADS = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_TENSOR = {name: re.compile(rf"(?<![\w.]){regex}\b") for name, regex in TENSOR_INSTRUCTIONS.items()}
_COPY = {name: re.compile(rf"(?<![\w.]){regex}\b") for name, regex in COPY_INSTRUCTIONS.items()}
_LOAD = re.compile(r"(?<![\w.])ldu?((?:\.[\w:]+)+)")
_NOT_GLOBAL = re.compile(r"\.(?:param|shared|local|const)\b")
_VECTOR = re.compile(r"\.v(\d)\b")
_ELEMENT = re.compile(r"\.(?:[bsuf]|bf)(\d+)(x2)?$")
_ASYNC = re.compile(
    r"(?<![\w.])cp\.async\.c[ag]\.\S+\s+\[[^\]]*\]\s*,\s*\[[^\]]*\]\s*,\s*(0x[\da-fA-F]+|\d+)"
)
_BULK = re.compile(r"(?<![\w.])cp\.async\.bulk\.\S*shared\S*\.global")
_BARRIER = re.compile(
    r"(?<![\w.])bar(?:rier)?(?:\.cta)?\."
    r"(?:(?:sync|arrive)(?:\.\w+)*|red(?:\.\w+)*\s+%\w+\s*,)\s*(\w+|%\w+)"
)


class PtxKernel(Record, frozen=True, kw_only=True):
    """One entry function."""

    name: str
    """Mangled name."""
    threads: int
    """Required or maximum threads of a block; 0 if the code does not state them."""
    tensor_instructions: tuple[str, ...]
    """Families of `TENSOR_INSTRUCTIONS` in the code."""
    copy_instructions: tuple[str, ...]
    """Families of `COPY_INSTRUCTIONS` in the code."""
    widest_load_bits: int
    """Widest load of a thread from global memory, into registers or shared memory; 0 without a load."""
    barriers: int
    """Block barriers; all of the hardware's if their number is not a constant."""


def isa_version(ptx: str) -> str:
    """Return the version of the PTX ISA, such as `8.8`, which belongs to the ptxas that translates it."""
    found = _VERSION.search(ptx)
    return found[1] if found else ""


def read_ptx(ptx: str) -> list[PtxKernel]:
    """Return the entry functions of a module; functions that they may call count for each of them."""
    text = _COMMENT.sub("", ptx)
    starts = list(_FUNCTION.finditer(text))
    ends = [match.start() for match in starts] + [len(text)]
    functions = [(match, text[match.end() : end]) for match, end in zip(starts, ends[1:], strict=True)]
    called = "".join(body for match, body in functions if match["kind"] == "func")
    return [_kernel(match["name"], body, called) for match, body in functions if match["kind"] == "entry"]


def _kernel(name: str, body: str, called: str) -> PtxKernel:
    threads = 0
    found = _THREADS.search(body)
    if found:
        threads = int(found[1]) * int(found[2] or 1) * int(found[3] or 1)
    code = body + called
    return PtxKernel(
        name=name,
        threads=threads,
        tensor_instructions=tuple(name for name, regex in _TENSOR.items() if regex.search(code)),
        copy_instructions=tuple(name for name, regex in _COPY.items() if regex.search(code)),
        widest_load_bits=max(_load_bits(code), default=0),
        barriers=max(_barriers(code), default=0),
    )


def _load_bits(code: str) -> Iterator[int]:
    for load in _LOAD.finditer(code):
        element = _ELEMENT.search(load[1])
        if element and not _NOT_GLOBAL.search(load[1]):
            vector = _VECTOR.search(load[1])
            yield int(element[1]) * (2 if element[2] else 1) * (int(vector[1]) if vector else 1)
    for copy in _ASYNC.finditer(code):
        yield 8 * int(copy[1], 0)
    if _BULK.search(code):
        yield BULK_BITS


def _barriers(code: str) -> Iterator[int]:
    for barrier in _BARRIER.finditer(code):
        yield int(barrier[1]) + 1 if barrier[1].isdecimal() else BLOCK_BARRIERS
