"""Counters of kernels, read on a GPU or known to a compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.quantities import Block, Grid, Number

if TYPE_CHECKING:
    from collections.abc import Mapping

MetricValue: TypeAlias = Number | str
"""A counter's value: a number in the catalogue's unit, or a word (`occupancy_limiter`)."""

WORDS = frozenset({"occupancy_limiter", "tensor_instructions", "copy_instructions", "compiler"})
"""Short names of the metrics whose values are words."""
NO_INSTRUCTIONS = "none"
"""Value of `tensor_instructions` and `copy_instructions` for a kernel that has none."""
COUNTERS_OFF = "counters are off"
"""Begin of `Profile.unavailable` if the user left counters out of the run."""
STATIC_SOURCE = "static"
"""`Profile.source` of compiled kernels; also the folder of their baselines."""


def is_raw_name(name: str) -> bool:
    """Return True if a name is spelled as ncu spells its own (`dram__bytes.sum`)."""
    return "__" in name


def top_stall(metrics: Mapping[str, MetricValue]) -> tuple[str, float] | None:
    """Return the largest `stall.*` of a row and its share in %; None if the row has none."""
    stalls = [
        (name, value)
        for name, value in metrics.items()
        if name.startswith("stall.") and not isinstance(value, str)
    ]
    return max(stalls, key=lambda stall: stall[1], default=None)


class KernelProfile(Record, frozen=True, kw_only=True):
    """Counters of one launch of one kernel."""

    name: str
    """Function name, as `ncu --kernel-name-base function` shows it."""
    demangled: str = ""
    """Name with template arguments; empty if it equals `name`."""
    code: str = ""
    """SHA-256 of the machine code; empty if unknown."""
    grid: Grid = (0, 0, 0)
    block: Block = (0, 0, 0)
    metrics: dict[str, MetricValue] = {}
    """Values by short name in the catalogue's unit, or by raw ncu name in ncu's own unit."""
    weights: dict[str, MetricValue] = {}
    """Values by short or raw name that weight other metrics when launches are combined; nobody asked for
    them. Empty for the only launch of a call."""


class Profile(Record, frozen=True, kw_only=True):
    """Counters of all kernels of one call that match a regex."""

    kernels: tuple[KernelProfile, ...] = ()
    """In launch order."""
    combined: dict[str, MetricValue] = {}
    """All kernels as one: counts added, percentages weighted by their denominators, maxima kept."""
    regex: str = ""
    """The pattern that chose the kernels; empty for all."""
    launches: str = ""
    """Launches that were read: `first`, `last` or an index; empty for all."""
    source: str = "ncu"
    """Source of the counters: `ncu`, `cupti` in the process of the test, or `static` for a compiler."""
    cache_control: str = ""
    """`all`: caches were flushed before each pass; `none`: they were left as they were."""
    clock_control: str = ""
    preset: str = ""
    """Requested sets of metrics, separated by commas; empty for the default."""
    chip: str = ""
    """Name of the GPU's chip, such as `gh100`, by which ncu's metrics differ; empty if not known."""
    unavailable: str = ""
    """Reason why counters are missing, and what to do; empty if they were read."""
    tolerated: bool = False
    """True if the test went on without counters, because nobody insisted on them."""

    @property
    def read_by(self) -> str:
        """Tool that read the counters, and its control of the caches: `ncu/all`, `cupti/none`.

        Values that depend on the GPU's state are compared only with values read in the same way.
        """
        return f"{self.source}/{self.cache_control or 'all'}"


class StaticKernel(Record, frozen=True, kw_only=True):
    """Facts of a kernel compiled for one architecture; kept as a `Profile` of the source `static`."""

    name: str
    """Name in the code: mangled for C++."""
    arch: str
    """`sm_90`."""
    compiler: str
    """`triton 3.9.0, PTX 9.4` or `nvcc 13.0.88`: another compiler makes another kernel."""
    block_size: int
    """Threads of a block."""
    registers_per_thread: int
    spills: int
    """Bytes that the code of a thread stores and loads because registers ran out."""
    stack_bytes: int
    """Local memory of a thread, in bytes."""
    shared_memory_bytes: int
    """Of a block, static and dynamic, in bytes, without the driver's part."""
    code_bytes: int
    widest_load_bits: int
    """Widest load of one thread from global memory; 0 without loads."""
    tensor_instructions: tuple[str, ...]
    """Those of `mma.sync`, `wmma`, `wgmma` and `tcgen05` that the code has."""
    copy_instructions: tuple[str, ...]
    """Those of `cp.async`, `cp.async.bulk` and `cp.async.bulk.tensor` that the code has."""
    theoretical_occupancy: float
    """Warps that fit on an SM, in % of its maximum."""
    blocks_per_sm: int
    code: str = ""
    """SHA-256 of the machine code, as in `KernelProfile`."""
    occupancy_limiter: str
    """Resource that allows the fewest blocks: `warps`, `blocks`, `registers`, `shared_mem` or `barriers`."""
