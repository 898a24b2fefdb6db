"""Which part a kernel has in a call: the classes of the kernel table, by rules.

Three of the classes are those that people find when they read a table of TensorBoard by eye: a large core
(long, many blocks for each SM), small kernels launched again and again (short, too few blocks to fill the
GPU), and auxiliary ones of medium size (as long as the core, fewer blocks). Every threshold compares a kernel
with the GPU or with the other kernels of the same call, never with a time in microseconds, so that a class
does not change with the GPU's speed.

Occupancy is no criterion: a GEMM on tensor cores has little of it by intent, a naive one has all of it, and
either can be the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.trace.kernel_names import kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.records import KernelClass, TracedKernel
    from pytest_gpuperf.trace.kernel_names import NameKind


@dataclass(frozen=True)
class Thresholds:
    """Where one class ends and the next begins."""

    frequent_calls: int = 4
    """A small kernel is frequent from so many launches in a call on,"""
    frequent_pct: float = 5.0
    """where these are this share of all launches, in per cent: then what a launch costs is felt."""
    small_blocks_per_sm: float = 1.0
    """Fewer blocks than SMs: some of these have nothing to do, however short the kernel is."""
    long: float = 0.5
    """Of the typical duration among the kernels classed by size, which is their mean weighted by total time,
    so that one rare long kernel does not make all others short."""
    medium: float = 0.25
    """The same for an auxiliary kernel; what is shorter and not frequent is `other`."""
    many_waves: float = 2.0
    """Blocks enough to fill the GPU so many times: the second wave is there before the first has ended."""
    many_blocks_per_sm: float = 4.0
    """In place of that where the GPU's SMs are not known: two waves of a kernel of which two blocks fit."""
    persistent_waves: float = 0.9
    """A persistent kernel launches as many blocks as fit at once, or a few less: from here to 1 wave,"""
    persistent_pct: float = 25.0
    """and is told from a medium one by its share of the GPU's time, in per cent."""


THRESHOLDS = Thresholds()

_BY_NAME: Mapping[NameKind, KernelClass] = {
    "data_movement": "data_movement",
    "reduction": "reduction",
    "elementwise": "elementwise",
    "communication": "other",
}
"""The rest is classed by size."""


def classify(kernels: Sequence[TracedKernel], limits: Thresholds = THRESHOLDS) -> list[KernelClass]:
    """The class of each kernel of a call, in their order.

    What a name says comes first: copies and the like are data movement, softmax, norms and sums reductions,
    pointwise kernels elementwise; communication between GPUs is other. Matrix products, convolutions,
    attention and all whose name says nothing are classed by size.
    """
    named = [_BY_NAME.get(kind_of(kernel.name)) for kernel in kernels]
    sized = [kernel for kernel, name in zip(kernels, named, strict=True) if name is None]
    time_us = sum(kernel.total_us for kernel in sized)
    typical_us = sum(kernel.total_us * kernel.mean_us for kernel in sized) / time_us if time_us else 0.0
    launches = sum(kernel.calls for kernel in kernels)
    return [
        name or _by_size(kernel, typical_us, launches, limits)
        for kernel, name in zip(kernels, named, strict=True)
    ]


def _by_size(kernel: TracedKernel, typical_us: float, launches: int, limits: Thresholds) -> KernelClass:
    is_long = kernel.mean_us >= limits.long * typical_us
    often = kernel.calls >= limits.frequent_calls and 100 * kernel.calls >= limits.frequent_pct * launches
    small = 0 < kernel.blocks_per_sm < limits.small_blocks_per_sm
    if is_long and (_has_many_blocks(kernel, limits) or _is_persistent(kernel, limits)):
        return "large_core"
    if small and often:
        return "small_frequent"
    if kernel.mean_us >= limits.medium * typical_us and not small:
        return "medium_auxiliary"
    return "other"


def _has_many_blocks(kernel: TracedKernel, limits: Thresholds) -> bool:
    if kernel.waves is None:
        return kernel.blocks_per_sm >= limits.many_blocks_per_sm
    return kernel.waves >= limits.many_waves


def _is_persistent(kernel: TracedKernel, limits: Thresholds) -> bool:
    waves = kernel.blocks_per_sm if kernel.waves is None else kernel.waves
    return limits.persistent_waves <= waves <= 1 and kernel.share_pct >= limits.persistent_pct
