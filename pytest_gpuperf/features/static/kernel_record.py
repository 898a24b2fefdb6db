"""One kernel compiled for one architecture: compiler output as a record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.errors import GpuperfError, show_repr
from pytest_gpuperf.measure.cubin_hash import Cubin
from pytest_gpuperf.measure.device.occupancy import multiprocessor, occupancy
from pytest_gpuperf.records import Record, StaticKernel

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.features.static.ptx_reader import PtxKernel

MESSAGE_LINES = 12
"""Maximum number of lines of compiler output in an error."""

_ARCH = re.compile(r"sm_(?P<major>\d+)(?P<minor>\d)[af]?")


class CudaSource(NamedTuple):
    """CUDA C++ to compile."""

    text: str
    path: Path | None
    """Path of the source; None if it was given as a text."""
    flags: tuple[str, ...]
    """Flags for the compiler."""


class CudaOutput(NamedTuple):
    """Output of a CUDA C++ compiler."""

    compiler: str
    """`nvcc 13.0.88`."""
    log: str
    """Compiler messages, including those of `ptxas -v`."""
    ptx: str
    cubin: bytes


class Resources(Record, frozen=True, kw_only=True):
    """Resources of one kernel, as NVIDIA's tools tell them."""

    registers: int
    """Of a thread."""
    stack_bytes: int
    """Of a thread."""
    spills: int
    """Bytes that the code of a thread stores to and loads from its stack."""
    shared_memory_bytes: int = 0
    """Static shared memory; a launch may add dynamic memory."""


class Compiled(NamedTuple):
    """Compiled entry function."""

    compiler: str
    ptx: PtxKernel
    resources: Resources
    cubin: bytes
    """ELF file for one architecture, with the machine code."""


def compute_capability(arch: str) -> tuple[int, int]:
    """Return `(9, 0)` for `sm_90` and `sm_90a`.

    Raises:
        GpuperfError: The name has another form, or the occupancy table does not have the architecture.
    """
    found = _ARCH.fullmatch(arch) if isinstance(arch, str) and len(arch) < 10 else None
    if found is None:
        raise GpuperfError(f"the architecture {show_repr(arch)}", expected="one such as 'sm_90' or 'sm_120'")
    capability = int(found["major"]), int(found["minor"])
    multiprocessor(capability)
    return capability


def static_kernel(compiled: Compiled, arch: str, *, block_size: int, dynamic_bytes: int) -> StaticKernel:
    """Add the properties of a launch on the architecture.

    Args:
        compiled: The kernel.
        arch: Architecture of the code.
        block_size: Threads of a block.
        dynamic_bytes: Shared memory that a launch asks for, in bytes.

    Raises:
        GpuperfError: No SM of the architecture can hold a block of it.
    """
    ptx, resources, code = compiled.ptx, compiled.resources, Cubin(compiled.cubin)
    shared = resources.shared_memory_bytes + dynamic_bytes
    try:
        fits = occupancy(
            compute_capability(arch),
            block_size=block_size,
            registers_per_thread=resources.registers,
            shared_memory_per_block=shared,
            barriers=ptx.barriers,
        )
    except GpuperfError as error:
        raise GpuperfError(
            f"{ptx.name} cannot be launched on {arch}: {error.found}", expected=error.expected
        ) from None
    return StaticKernel(
        name=ptx.name,
        arch=arch,
        compiler=compiled.compiler,
        block_size=block_size,
        registers_per_thread=resources.registers,
        spills=resources.spills,
        stack_bytes=resources.stack_bytes,
        shared_memory_bytes=shared,
        code_bytes=len(code.instructions(ptx.name)),
        code=code.code_hash(ptx.name),
        widest_load_bits=ptx.widest_load_bits,
        tensor_instructions=ptx.tensor_instructions,
        copy_instructions=ptx.copy_instructions,
        theoretical_occupancy=fits.theoretical_occupancy_pct,
        blocks_per_sm=fits.blocks_per_sm,
        occupancy_limiter=fits.limiter,
    )


def shortened(log: str) -> str:
    """Return the first lines of compiler output."""
    lines = [line for line in log.splitlines() if line.strip()]
    more = [f"and {len(lines) - MESSAGE_LINES} more lines"] if len(lines) > MESSAGE_LINES else []
    return "\n".join([*lines[:MESSAGE_LINES], *more])
