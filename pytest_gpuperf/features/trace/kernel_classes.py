"""Classes of the kernel table: the part that a kernel has in a call, by rules.

People who read a table of TensorBoard by eye find three of these classes: a large core (long, many blocks for
each SM), small kernels launched again and again (short, too few blocks to fill the GPU), and auxiliary ones
of medium size (about as long as the core, fewer blocks, fewer launches). Every threshold compares a kernel
with the GPU or with the other kernels of the same call, never with a time in microseconds, so that a class
does not change with the GPU's speed.

Occupancy is not a criterion: a GEMM on tensor cores has little by intent, a naive one has all of it, and
either can be the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.features.trace.kernel_name_patterns import kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.features.trace.kernel_name_patterns import NameKind
    from pytest_gpuperf.records import KernelClass, TracedKernel


@dataclass(frozen=True)
class Thresholds:
    """Limits between the classes."""

    frequent_calls: int = 4
    """Small kernels are frequent from this number of launches in a call,"""
    frequent_pct: float = 5.0
    """if these are this share of all launches, in percent: then the cost of a launch matters."""
    alike: float = 0.5
    """Ratio of two durations from which small kernels count as one kind. A library that picks another kernel
    for each shape launches each a few times and all of them often; one long kernel among many short ones
    stays one launch."""
    small_blocks_per_sm: float = 0.8
    """More than a fifth of the SMs are idle, regardless of the duration. Not 1, because a grid made to fill
    the GPU may lack blocks: a kernel of 128 tiles on 132 SMs is not small. DeepSeek's persistent products
    leave 20 of 132 SMs to communication."""
    small_waves: float = 0.8
    """A short kernel is small below this too: with several blocks on an SM its grid takes one wave with empty
    places. The work of a block limits a long kernel of so few blocks, not its launch."""
    long: float = 0.5
    """Share of the typical duration from which a kernel is long, else it is short. The typical duration is
    the mean of the kernels classed by size, weighted by total time, so that one rare long kernel does not
    make all others short."""
    medium: float = 0.25
    """The same for an auxiliary kernel; a shorter kernel that is not frequent is `other`."""
    many_waves: float = 2.0
    """Enough blocks to fill the GPU this many times: the second wave is ready before the first has ended."""
    many_blocks_per_sm: float = 4.0
    """Used in its place if the GPU's SMs are unknown: two waves of a kernel of which two blocks fit."""
    persistent_waves: float = 0.8
    """A persistent kernel launches as many blocks as fit at once, or some less: from this value to 1
    wave,"""
    persistent_pct: float = 25.0
    """and differs from a medium one by its share of the GPU's time, in percent."""


THRESHOLDS = Thresholds()

_BY_NAME: Mapping[NameKind, KernelClass] = {
    "data_movement": "data_movement",
    "reduction": "reduction",
    "elementwise": "elementwise",
    "communication": "communication",
}
"""All other kernels are classed by size."""


def classify(kernels: Sequence[TracedKernel]) -> list[KernelClass]:
    """Return the class of each kernel of a call, in their order.

    Names decide first: copies and the like are data movement; softmax, norms and sums are reductions;
    pointwise kernels are elementwise; kernels that move data between GPUs are communication. Matrix
    products, convolutions, attention and kernels whose name tells nothing are classed by size.
    """
    named = [_BY_NAME.get(kind_of(kernel.name)) for kernel in kernels]
    sized = [kernel for kernel, name in zip(kernels, named, strict=True) if name is None]
    time_us = sum(kernel.total_us for kernel in sized)
    typical_us = sum(kernel.total_us * kernel.mean_us for kernel in sized) / time_us if time_us else 0.0
    small = [kernel for kernel in sized if _is_small(kernel, typical_us)]
    launches = sum(kernel.calls for kernel in kernels)

    def by_size(kernel: TracedKernel) -> KernelClass:
        many = _has_many_blocks(kernel) or _is_persistent(kernel)
        if many and kernel.mean_us >= THRESHOLDS.long * typical_us:
            return "large_core"
        if _is_small(kernel, typical_us) and _is_frequent(kernel, small, launches):
            return "small_frequent"
        return "medium_auxiliary" if kernel.mean_us >= THRESHOLDS.medium * typical_us else "other"

    return [name or by_size(kernel) for kernel, name in zip(kernels, named, strict=True)]


def _is_small(kernel: TracedKernel, typical_us: float) -> bool:
    if 0 < kernel.blocks_per_sm < THRESHOLDS.small_blocks_per_sm:
        return True
    is_short = kernel.mean_us < THRESHOLDS.long * typical_us
    return is_short and kernel.waves is not None and kernel.waves < THRESHOLDS.small_waves


def _is_frequent(kernel: TracedKernel, small: Sequence[TracedKernel], launches: int) -> bool:
    calls = 0
    for other in small:
        shorter, longer = sorted((kernel.mean_us, other.mean_us))
        calls += other.calls if shorter >= THRESHOLDS.alike * longer else 0
    return calls >= THRESHOLDS.frequent_calls and 100 * calls >= THRESHOLDS.frequent_pct * launches


def _has_many_blocks(kernel: TracedKernel) -> bool:
    if kernel.waves is None:
        return kernel.blocks_per_sm >= THRESHOLDS.many_blocks_per_sm
    return kernel.waves >= THRESHOLDS.many_waves


def _is_persistent(kernel: TracedKernel) -> bool:
    waves = kernel.blocks_per_sm if kernel.waves is None else kernel.waves
    return THRESHOLDS.persistent_waves <= waves <= 1 and kernel.share_pct >= THRESHOLDS.persistent_pct
