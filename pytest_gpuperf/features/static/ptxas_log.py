"""Read the output of `ptxas -v`, which nvcc and NVRTC pass on."""

from __future__ import annotations

import re

from pytest_gpuperf.features.static.kernel_record import Resources

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_USED = re.compile(r"Used (?P<registers>\d+) registers(?P<more>[^\n]*)")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")


def read_log(log: str) -> dict[str, tuple[Resources, int]]:
    """Return the resources and the number of barriers by mangled name."""
    said = _ENTRY.split(log)
    return {
        name: _usage(name, used, log)
        for name, text in zip(said[1::2], said[2::2], strict=True)
        if (used := _USED.search(text))
    }


def _usage(name: str, used: re.Match[str], log: str) -> tuple[Resources, int]:
    barriers, shared = _BARRIERS.search(used["more"]), _SHARED.search(used["more"])
    # Functions that the kernel calls have such a line too, so look it up by name.
    frame = re.search(
        rf"Function properties for {re.escape(name)}\s*\n"
        r"\D*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
        log,
    )
    stack, stores, loads = map(int, frame.groups()) if frame else (0, 0, 0)
    resources = Resources(
        registers=int(used["registers"]),
        stack_bytes=stack,
        spills=stores + loads,
        shared_memory_bytes=int(shared[1]) if shared else 0,
    )
    return resources, int(barriers[1]) if barriers else 0
