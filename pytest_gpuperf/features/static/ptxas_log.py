"""Read the output of `ptxas -v`, which nvcc and NVRTC pass on."""

from __future__ import annotations

import re
from typing import NamedTuple

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_USED = re.compile(r"Used (?P<registers>\d+) registers(?P<more>[^\n]*)")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")


class Usage(NamedTuple):
    """Resources of one kernel."""

    registers: int
    """Of a thread."""
    barriers: int
    shared_memory_bytes: int
    """Static."""
    stack_bytes: int
    """Of a thread."""
    spills: int
    """Bytes of spill stores and spill loads."""


def read_log(log: str) -> dict[str, Usage]:
    """Return the usage by mangled name."""
    said = _ENTRY.split(log)
    return {
        name: _usage(name, used, log)
        for name, text in zip(said[1::2], said[2::2], strict=True)
        if (used := _USED.search(text))
    }


def _usage(name: str, used: re.Match[str], log: str) -> Usage:
    barriers, shared = _BARRIERS.search(used["more"]), _SHARED.search(used["more"])
    # Functions that the kernel calls have such a line too, so look it up by name.
    frame = re.search(
        rf"Function properties for {re.escape(name)}\s*\n"
        r"\D*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
        log,
    )
    stack, stores, loads = map(int, frame.groups()) if frame else (0, 0, 0)
    return Usage(
        registers=int(used["registers"]),
        barriers=int(barriers[1]) if barriers else 0,
        shared_memory_bytes=int(shared[1]) if shared else 0,
        stack_bytes=stack,
        spills=stores + loads,
    )
