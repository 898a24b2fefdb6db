"""Machine code as text (SASS), by NVIDIA's disassembler, in a form that two builds can be compared by."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.static.cubin import run_tool

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINE = re.compile(r"/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<instruction>[^;]+);")
_TARGET = re.compile(
    r"(?P<branch>\b(?:BRA|BSSY|BRX|CALL|BREAK|WARPSYNC|JMP)\b[^;]*?)(?P<address>0x[0-9a-f]+)\b"
)
_RETURN = re.compile(r"(?P<instruction>\bRET\b.*?) -?0x[0-9a-f]+")
"""A return has its distance from the end of the function, which moves with each instruction."""
_OPCODE = re.compile(r"(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][A-Z0-9_]*)")
_ACCELERATED = (9, 0)
"""First compute capability whose instructions need an architecture of its own: `SM90a`."""


def disassemble(instructions: bytes, compute_capability: str, tool: Path) -> list[str]:
    """Return the instructions of a kernel, a line each, with labels in place of addresses.

    An instruction that is inserted moves all later addresses, which would hide what has changed.

    Args:
        instructions: Its machine code.
        compute_capability: Of the GPU that it is for: `9.0`.
        tool: Path of `nvdisasm`.

    Raises:
        GpuperfError: The tool is missing, or finds no instruction.
    """
    major, _, minor = compute_capability.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise GpuperfError(
            f"the compute capability of the code is {compute_capability!r}", expected="such as 9.0"
        )
    special = "a" if (int(major), int(minor)) >= _ACCELERATED else ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.bin"
        path.write_bytes(instructions)
        text = run_tool(tool, path, "--binary", f"SM{major}{minor}{special}")
    found = [(int(one["address"], 16), " ".join(one["instruction"].split())) for one in _LINE.finditer(text)]
    if not found:
        raise GpuperfError(
            f"{tool.name} finds no instruction in the code for compute capability {compute_capability}",
            next_step="install a newer Triton or CUDA toolkit, whose tools know the architecture",
        )
    return _labelled(found)


def opcodes(lines: Sequence[str]) -> Counter[str]:
    """Count the instructions by opcode, without its modifiers."""
    return Counter(
        found["opcode"] for line in lines if (found := _OPCODE.match(line)) and not line.endswith(":")
    )


def _labelled(instructions: Sequence[tuple[int, str]]) -> list[str]:
    targets = {int(one["address"], 16) for _, line in instructions for one in _TARGET.finditer(line)}
    labels = {address: f"L{number}" for number, address in enumerate(sorted(targets), 1)}
    lines = []
    for address, line in instructions:
        if address in labels:
            lines.append(f"{labels[address]}:")
        line = _TARGET.sub(lambda one: f"{one['branch']}{labels[int(one['address'], 16)]}", line)
        lines.append(_RETURN.sub(r"\g<instruction>", line))
    while lines and lines[-1] == "NOP":
        lines.pop()  # fills the last cache line
    return lines
