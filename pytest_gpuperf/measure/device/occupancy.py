"""Theoretical occupancy: the blocks of a kernel that an SM holds at once, and their limiter.

The method is that of NVIDIA's `cuda_occupancy.h` (CUDA 13.0). The sizes are those of the CUDA C++ Programming
Guide, table "Technical Specifications per Compute Capability".

Not modelled: clusters, whose blocks need room together on the SMs of one GPC; Blackwell's tensor memory;
kernels that share the SM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from collections.abc import Mapping

WARP_THREADS = 32
BLOCK_THREADS = 1024
BLOCK_BARRIERS = 16
THREAD_REGISTERS = 255
REGISTERS = 65536
"""Registers of an SM, and the maximum of one block."""
REGISTER_UNIT = 256
"""A warp gets registers in multiples of this."""
PARTITIONS = 4
"""A warp lives in one quarter of the SM, with a quarter of its registers."""


@dataclass(frozen=True)
class Multiprocessor:
    """Capacity of an SM of one compute capability."""

    warps: int
    blocks: int
    shared_memory_kib: tuple[int, ...]
    """Sizes that the shared memory part of L1 can have, the largest last."""
    barriers_per_block: int = 0
    """Barriers of the SM for each of its `blocks`; 0 if they do not limit (before Hopper)."""
    reserved_bytes: int = 1024
    """Shared memory of each block that the driver reserves."""
    shared_memory_unit: int = 128
    """A block gets shared memory in multiples of this, in bytes."""

    @property
    def block_shared_memory_bytes(self) -> int:
        """Maximum shared memory of one block."""
        return self.shared_memory_kib[-1] * 1024 - self.reserved_bytes


_TO_100 = (0, 8, 16, 32, 64, 100)
_TO_164 = (*_TO_100, 132, 164)
_TO_228 = (*_TO_164, 196, 228)
_VOLTA = Multiprocessor(64, 32, (0, 8, 16, 32, 64, 96), reserved_bytes=0, shared_memory_unit=256)
_HOPPER = Multiprocessor(64, 32, _TO_228, barriers_per_block=2)
_SMALL_BLACKWELL = Multiprocessor(48, 24, _TO_100, barriers_per_block=1)

MULTIPROCESSORS: Mapping[tuple[int, int], Multiprocessor] = {
    (7, 0): _VOLTA,
    (7, 2): _VOLTA,
    (7, 5): Multiprocessor(32, 16, (32, 64), reserved_bytes=0, shared_memory_unit=256),
    (8, 0): Multiprocessor(64, 32, _TO_164),
    (8, 6): Multiprocessor(48, 16, _TO_100),
    (8, 7): Multiprocessor(48, 16, _TO_164),
    (8, 9): Multiprocessor(48, 24, _TO_100),
    (9, 0): _HOPPER,
    (10, 0): _HOPPER,
    (10, 3): _HOPPER,
    (11, 0): Multiprocessor(48, 24, _TO_228, barriers_per_block=1),
    (12, 0): _SMALL_BLACKWELL,
    (12, 1): _SMALL_BLACKWELL,
}
"""By compute capability, major and minor."""


@dataclass(frozen=True)
class Occupancy:
    """Share of an SM that a kernel can fill, given enough blocks."""

    theoretical_occupancy_pct: float
    """Resident warps as a percentage of the SM's maximum."""
    blocks_per_sm: int
    limits: Mapping[str, int]
    """Blocks on an SM that each of `warps`, `blocks`, `registers`, `shared_mem` and `barriers` allows, like
    ncu's `launch__occupancy_limit_*`."""

    @property
    def limiter(self) -> str:
        """Resource that allows the fewest blocks; in a tie the one that the hardware fixes comes first."""
        return min(self.limits, key=self.limits.__getitem__)


def multiprocessor(compute_capability: tuple[int, int]) -> Multiprocessor:
    """Return the capacity of an SM of a compute capability.

    Raises:
        GpuperfError: The table does not have it.
    """
    sm = MULTIPROCESSORS.get(tuple(compute_capability))  # type: ignore[arg-type]
    if sm is None:
        known = ", ".join(f"{major}.{minor}" for major, minor in MULTIPROCESSORS)
        raise GpuperfError(
            f"the occupancy table does not have the compute capability {compute_capability!r}",
            expected=f"major and minor of one of {known}",
        )
    return sm


def occupancy(
    compute_capability: tuple[int, int],
    *,
    block_size: int,
    registers_per_thread: int,
    shared_memory_per_block: int = 0,
    barriers: int = 0,
    shared_memory_per_sm: int | None = None,
) -> Occupancy:
    """Compute the theoretical occupancy of a kernel, like the driver and Nsight Compute.

    Args:
        compute_capability: Major and minor: `(9, 0)`.
        block_size: Threads of a block.
        registers_per_thread: Count of the compiler and of ncu (`launch__registers_per_thread`).
        shared_memory_per_block: Static and dynamic bytes, without the kibibyte that the driver adds from
            compute capability 8.0 on.
        barriers: Block barriers that the kernel uses.
        shared_memory_per_sm: Bytes of L1 that are configured as shared memory, ncu's
            `launch__shared_mem_config_size`; the maximum by default. If one block needs more, the smallest
            size that holds it is taken, like the driver does.

    Raises:
        GpuperfError: The compute capability is unknown, or no SM of it can hold such a block.
    """
    sm = multiprocessor(compute_capability)
    shown = ".".join(map(str, compute_capability))
    _refuse_above("threads", block_size, BLOCK_THREADS, shown, least=1)
    _refuse_above("registers a thread", registers_per_thread, THREAD_REGISTERS, shown)
    _refuse_above("bytes of shared memory", shared_memory_per_block, sm.block_shared_memory_bytes, shown)
    _refuse_above("barriers", barriers, BLOCK_BARRIERS, shown)

    warps = _divided_up(block_size, WARP_THREADS)
    registers = REGISTER_UNIT * _divided_up(registers_per_thread * WARP_THREADS, REGISTER_UNIT)
    # The hardware counts each partition with as many warps as the fullest one.
    _refuse_above("registers", registers * PARTITIONS * _divided_up(warps, PARTITIONS), REGISTERS, shown)
    unit = sm.shared_memory_unit
    shared = unit * _divided_up(shared_memory_per_block + sm.reserved_bytes, unit)
    limits = dict.fromkeys(("warps", "blocks", "registers", "shared_mem", "barriers"), sm.blocks)
    limits["warps"] = sm.warps // warps
    if registers:
        limits["registers"] = PARTITIONS * (REGISTERS // PARTITIONS // registers) // warps
    if shared:
        limits["shared_mem"] = _configured(sm, shared, shared_memory_per_sm) // shared
    if barriers and sm.barriers_per_block:
        limits["barriers"] = min(sm.blocks, sm.barriers_per_block * sm.blocks // barriers)
    blocks = min(limits.values())
    return Occupancy(100 * blocks * warps / sm.warps, blocks, limits)


def _configured(sm: Multiprocessor, block_bytes: int, wanted: int | None) -> int:
    sizes = [1024 * kib for kib in sm.shared_memory_kib]
    if wanted is None:
        return sizes[-1]
    if wanted not in sizes:
        raise GpuperfError(
            f"shared_memory_per_sm={wanted!r}", expected=f"one of {', '.join(map(str, sizes))}, in bytes"
        )
    return next(size for size in sizes if size >= max(wanted, block_bytes))


def _refuse_above(what: str, asked: int, most: int, capability: str, least: int = 0) -> None:
    if asked > most:
        raise GpuperfError(
            f"a block of {asked:,} {what} fits on no SM of compute capability {capability}",
            expected=f"at most {most:,}",
        )
    if asked < least:
        raise GpuperfError(f"a block of {asked:,} {what}", expected=f"{least} or more")


def _divided_up(value: int, by: int) -> int:
    return -(-value // by)
