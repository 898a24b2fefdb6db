"""Counters of kernels, as they were read or as a compiler knows them."""

from __future__ import annotations

from typing import TypeAlias

from pytest_gpuperf.records.base import Record

MetricValue: TypeAlias = float | str
"""A counter's value: a number in the catalogue's unit, or a word (`occupancy_limiter`)."""

WORDS = frozenset({"occupancy_limiter", "tensor_instructions", "copy_instructions", "compiler"})
"""Short names of the metrics whose values are words."""


def is_raw_name(name: str) -> bool:
    """Return True if a name is spelled as ncu spells its own (`dram__bytes.sum`)."""
    return "__" in name


class KernelProfile(Record, frozen=True, kw_only=True):
    """Counters of one launch of one kernel."""

    name: str
    """Function name, as `ncu --kernel-name-base function` shows it."""
    demangled: str = ""
    """With template arguments; empty where it equals `name`."""
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    metrics: dict[str, MetricValue] = {}
    """By short name in the catalogue's unit, or by raw ncu name in ncu's own unit."""
    weights: dict[str, MetricValue] = {}
    """By short or raw name: what nobody asked for, but by which some metrics are weighted when launches
    combine. Empty for the only launch of a call, and in runs of before it was kept."""


class Profile(Record, frozen=True, kw_only=True):
    """Counters of all kernels of one call that match a regex."""

    kernels: tuple[KernelProfile, ...] = ()
    """In launch order."""
    combined: dict[str, MetricValue] = {}
    """All kernels as one: counts added, percentages weighted by what they are shares of, maxima kept."""
    regex: str = ""
    """The pattern that chose the kernels; empty for all."""
    launches: str = ""
    """Which of their launches: `first`, `last` or an index; empty for all."""
    source: str = "ncu"
    """Who counted: `ncu`, `cupti` where it was done in the process of the test, or `static` for what a
    compiler knows without running anything."""
    cache_control: str = ""
    """`all`: caches were flushed before each pass; `none`: they were left as they were."""
    clock_control: str = ""
    preset: str = ""
    """The sets of metrics that were asked for, separated by commas; empty for the default."""
    chip: str = ""
    """Name of the GPU's chip, such as `gh100`, by which ncu's metrics differ; empty where not known."""
    read_at: str = ""
    """When an earlier run read them of the same code, in UTC (`2026-11-20T17:30:12Z`); empty where this one
    did. Beside `unavailable`: when those were read that did not fit."""
    unavailable: str = ""
    """Why there are no counters (one sentence and what to do); empty where there are."""
    tolerated: bool = False
    """Whether the test went on without them: nobody had insisted on counters."""

    @property
    def read_by(self) -> str:
        """Who read them and what was done to the caches: `ncu/all`, `cupti/none`.

        Values that depend on the GPU's state are compared only with those that were read in the same way.
        """
        return f"{self.source}/{self.cache_control or 'all'}"


class StaticKernel(Record, frozen=True, kw_only=True):
    """What the compiler made of a kernel for one architecture; kept as a `Profile` of the source `static`."""

    name: str
    """As in the code: mangled, where it is C++."""
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
    """Of a block, static and dynamic, in bytes, without what the driver adds."""
    code_bytes: int
    widest_load_bits: int
    """Of one thread from global memory; 0 where it loads nothing."""
    tensor_instructions: tuple[str, ...]
    """Which of `mma.sync`, `wmma`, `wgmma` and `tcgen05` the code has."""
    copy_instructions: tuple[str, ...]
    """Which of `cp.async`, `cp.async.bulk` and `cp.async.bulk.tensor` the code has."""
    theoretical_occupancy: float
    """Warps that fit, of what an SM can hold, in per cent."""
    blocks_per_sm: int
    occupancy_limiter: str
    """What allows the fewest blocks: `warps`, `blocks`, `registers`, `shared_mem` or `barriers`."""
