"""Code of the kernels that a call launches: a hash of each kernel's machine code, its launch, and changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.number_ranges import (
    Block,
    Cluster,
    Count,
    Grid,
    Positive,
    Registers,
    SharedMemory,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTRUCTION_BYTES = 16
"""Bytes of a machine instruction since Volta; compilers fill the last 128 bytes of a kernel up."""
SHOWN_DIFFERENCES = 8
"""Maximum number of kernels whose differences are shown."""


class LaunchedKernel(Record, frozen=True, kw_only=True):
    """One kernel of a call, with one launch configuration."""

    name: str
    """Function name."""
    code: str = ""
    """SHA-256 of the machine code, as in `KernelProfile`; empty if the code was not found."""
    grid: Grid = (0, 0, 0)
    block: Block = (0, 0, 0)
    cluster: Cluster = (0, 0, 0)
    """Blocks of a cluster; zeros without clusters."""
    shared_memory_bytes: SharedMemory = 0
    """Static and dynamic shared memory of a block."""
    registers_per_thread: Registers = 0
    local_bytes: Count = 0
    """Local memory of a thread: its stack, and spilled registers."""
    code_bytes: Count = 0
    """Shown as instructions, of `INSTRUCTION_BYTES` each."""
    launches: Positive = 1
    """Launches of this kernel with this configuration, a call."""


class LaunchedCode(Record, frozen=True, kw_only=True):
    """Code of all kernels of one call."""

    kernels: tuple[LaunchedKernel, ...] = ()
    """Distinct kernels and configurations, in the order of their first launch."""
    driver: str = ""
    """Version of the driver."""
    unavailable: str = ""
    """Reason why the launches are not known; empty if they are."""


def compare_code(now: LaunchedCode | None, known: LaunchedCode | None) -> tuple[str, ...]:
    """Return a line for each kernel whose code or launch differs; nothing if code is unknown on one side."""
    if now is None or known is None or not now.kernels or not known.kernels:
        return ()
    lines = list(_differences(now, known))
    if now.driver != known.driver:
        lines.append(f"driver {known.driver or 'unknown'} -> {now.driver or 'unknown'}")
    if len(lines) > SHOWN_DIFFERENCES:
        lines[SHOWN_DIFFERENCES:] = [f"and {len(lines) - SHOWN_DIFFERENCES} more differences of kernels"]
    return tuple(lines)


def is_same_code(now: LaunchedCode | None, known: LaunchedCode | None) -> bool:
    """Return True if code, launches and driver are known and the same."""
    if now is None or known is None or not now.kernels or not known.kernels:
        return False
    return all(one.code for one in (*now.kernels, *known.kernels)) and not compare_code(now, known)


def _differences(now: LaunchedCode, known: LaunchedCode) -> Iterator[str]:
    new = [kernel for kernel in now.kernels if kernel not in known.kernels]
    gone = [kernel for kernel in known.kernels if kernel not in now.kernels]
    for kernel in new:
        before = next((one for one in gone if one.name == kernel.name), None)
        if before is None:
            yield f"{kernel.name} is a new kernel"
            continue
        gone.remove(before)
        if found := ", ".join(_changes(before, kernel)):
            yield f"{kernel.name}: {found}"
    for kernel in gone:
        yield f"{kernel.name} is no longer launched"


def _changes(before: LaunchedKernel, now: LaunchedKernel) -> Iterator[str]:
    if before.code and now.code and before.code != now.code:
        yield "other code"
    for name in now.__struct_fields__:
        old, new = getattr(before, name), getattr(now, name)
        if old != new and name not in ("code", "code_bytes"):
            yield f"{name.replace('_', ' ')} {_show(old)} -> {_show(new)}"
    # The size of unknown code is unknown.
    if before.code_bytes and now.code_bytes and before.code_bytes != now.code_bytes:
        yield "instructions {} -> {}".format(*(one.code_bytes // INSTRUCTION_BYTES for one in (before, now)))


def _show(value: int | tuple[int, int, int]) -> str:
    return " x ".join(map(str, value)) if isinstance(value, tuple) else str(value)
