"""Environment of a run: GPU, toolchain, commit."""

from __future__ import annotations

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.number_ranges import Count, Multiprocessors, Ratio


class GpuInfo(Record, frozen=True, kw_only=True):
    """The GPU that measured."""

    name: str
    """Name in the driver: `NVIDIA H200`."""
    slug: str
    """Name of its folder below the baselines: `nvidia-h200`."""
    uuid: str = ""
    """Tells two cards of one model apart; empty if the driver hides it."""
    compute_capability: str = ""
    """`9.0`."""
    multiprocessors: Multiprocessors = 0
    l2_bytes: Count = 0
    memory_bytes: Count = 0
    dram_gb_per_s: Ratio = 0.0
    """Peak rate of the memory by its clock and bus width, in 10⁹ bytes per second; 0 if unknown."""


NO_GPU = GpuInfo(name="no GPU", slug="static")
"""GPU of kernels that were compiled and not run."""


class Toolchain(Record, frozen=True, kw_only=True):
    """Versions that can change a kernel or its measurement; empty if not installed."""

    gpuperf: str = ""
    python: str = ""
    pytest: str = ""
    torch: str = ""
    triton: str = ""
    cuda: str = ""
    """The CUDA version torch was built for."""
    driver: str = ""
    allocator: str = "native"
    """Settings of torch's allocator in the environment, as `PYTORCH_ALLOC_CONF=expandable_segments:True`."""
    ncu: str = ""
    packages: dict[str, str] = {}
    """Versions of other installed packages that the tests import and that launch kernels, by name."""


class Environment(Record, frozen=True, kw_only=True):
    """Environment of a run, without host name, user name or any path."""

    gpu: GpuInfo
    toolchain: Toolchain
    commit: str = ""
    """Commit of the measured repository; empty if it is not known."""
    dirty: bool | None = None
    """True if files differed from the commit, or were not in it; None if it is not known."""
