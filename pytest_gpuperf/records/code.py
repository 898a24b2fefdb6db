"""Code of the kernels that a call launches: a hash of each kernel's machine code, and its launch."""

from __future__ import annotations

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.quantities import Block, Cluster, Count, Grid, Positive, Registers, SharedMemory


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
