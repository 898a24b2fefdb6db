"""One kernel compiled for one architecture: compiler output as a record and as a profile."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pytest_gpuperf.errors import GpuperfError, show_repr
from pytest_gpuperf.measure.device.occupancy import multiprocessor, occupancy
from pytest_gpuperf.records import KernelProfile, Profile, Record, StaticKernel
from pytest_gpuperf.records.counters import NO_INSTRUCTIONS, STATIC_SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_gpuperf.records import Measurement, MetricValue

ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
"""One architecture for each kind of tensor core since Ampere."""
INSTRUCTIONS = ("tensor_instructions", "copy_instructions")
"""Facts whose values are several words."""
MESSAGE_LINES = 12
"""Maximum number of lines of compiler output in an error."""

_ARCH = re.compile(r"sm_(?P<major>\d+)(?P<minor>\d)[af]?")
_LABEL = re.compile(r".*\[(?P<inner>sm_\d+[af]?)\]|(?P<alone>sm_\d+[af]?)", re.DOTALL)


class NoCompilerError(GpuperfError):
    """This machine has no compiler; the kernel and the test are not at fault."""


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


class Compiled(Record, frozen=True, kw_only=True):
    """Compiled entry function."""

    name: str
    compiler: str
    registers: int
    stack_bytes: int
    spills: int
    shared_memory_bytes: int
    """Static shared memory; a launch may add dynamic memory."""
    code_bytes: int
    code: str
    """SHA-256 of the machine code."""
    threads: int
    """Threads of a block; 0 if the code does not state them."""
    barriers: int
    tensor_instructions: tuple[str, ...]
    copy_instructions: tuple[str, ...]
    widest_load_bits: int


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
    shared = compiled.shared_memory_bytes + dynamic_bytes
    try:
        fits = occupancy(
            compute_capability(arch),
            block_size=block_size,
            registers_per_thread=compiled.registers,
            shared_memory_per_block=shared,
            barriers=compiled.barriers,
        )
    except GpuperfError as error:
        raise GpuperfError(
            f"{compiled.name} cannot be launched on {arch}: {error.found}", expected=error.expected
        ) from None
    return StaticKernel(
        name=compiled.name,
        arch=arch,
        compiler=compiled.compiler,
        block_size=block_size,
        registers_per_thread=compiled.registers,
        spills=compiled.spills,
        stack_bytes=compiled.stack_bytes,
        shared_memory_bytes=shared,
        code_bytes=compiled.code_bytes,
        code=compiled.code,
        widest_load_bits=compiled.widest_load_bits,
        tensor_instructions=compiled.tensor_instructions,
        copy_instructions=compiled.copy_instructions,
        theoretical_occupancy=fits.theoretical_occupancy_pct,
        blocks_per_sm=fits.blocks_per_sm,
        occupancy_limiter=fits.limiter,
    )


def label_of(label: str, arch: str) -> str:
    """Return the label of a kernel: `sm_90`, or `backward[sm_90]` if the test has given a label."""
    return arch if label == "main" else f"{label}[{arch}]"


def arch_of(label: str) -> str:
    """Return the architecture in a label of `label_of`; empty for any other label."""
    found = _LABEL.fullmatch(label)
    return found["inner"] or found["alone"] if found else ""


def profile_of(kernel: StaticKernel) -> Profile:
    """Convert a kernel to a row of exact counters that limits and baselines can judge."""
    metrics: dict[str, MetricValue] = {
        **{
            name: value
            for name, value in msgspec.structs.asdict(kernel).items()
            if name not in ("name", "arch", "code", *INSTRUCTIONS)
        },
        **{name: " ".join(getattr(kernel, name)) or NO_INSTRUCTIONS for name in INSTRUCTIONS},
    }
    launch = KernelProfile(
        name=kernel.name, code=kernel.code, block=(kernel.block_size, 1, 1), metrics=metrics
    )
    return Profile(kernels=(launch,), combined=metrics, source=STATIC_SOURCE)


def kernels_of(measurements: Mapping[str, Measurement], label: str) -> dict[str, StaticKernel]:
    """Return the kernels behind the profiles of one label of a test, by architecture.

    Raises:
        GpuperfError: A record, read from a file, has another form.
    """
    return {
        arch: _kernel_of(measurement.profile, arch)
        for kept, measurement in measurements.items()
        if measurement.is_static
        and measurement.profile is not None
        and (arch := arch_of(kept))
        and label_of(label, arch) == kept
    }


def _kernel_of(profile: Profile, arch: str) -> StaticKernel:
    metrics = dict(profile.combined)
    words = {key: str(metrics.pop(key, "")) for key in INSTRUCTIONS}
    lists = {key: [] if text == NO_INSTRUCTIONS else text.split() for key, text in words.items()}
    name, code = (profile.kernels[0].name, profile.kernels[0].code) if profile.kernels else ("", "")
    given = {**metrics, **lists, "name": name, "arch": arch, "code": code}
    try:
        return msgspec.convert(given, StaticKernel, strict=False)
    except msgspec.ValidationError as error:
        raise GpuperfError(
            f"the recorded kernel {name} of {arch} does not have the expected form: {error}"
        ) from None


def shortened(log: str) -> str:
    """Return the first lines of compiler output."""
    lines = [line for line in log.splitlines() if line.strip()]
    more = [f"and {len(lines) - MESSAGE_LINES} more lines"] if len(lines) > MESSAGE_LINES else []
    return "\n".join([*lines[:MESSAGE_LINES], *more])
