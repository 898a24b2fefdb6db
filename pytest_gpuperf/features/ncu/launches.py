"""The launches of a file from ncu: identical ones as one group, those that failed, and their GPUs."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.features.ncu.report_file import ReportKernel
from pytest_gpuperf.report.number_format import listed, number_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.records import KernelProfile, MetricValue

CLOCKS_DIFFER_PCT = 1.0
"""A comparison names the SM clocks of two files if they differ by more."""


@dataclass(frozen=True)
class LaunchGroup:
    """Launches of one kernel with the same grid, block, registers and shared memory on one GPU."""

    kernels: tuple[KernelProfile, ...]
    """All measured, or all failed."""

    @property
    def first(self) -> KernelProfile:
        """Return the first launch."""
        return self.kernels[0]

    @property
    def failed(self) -> bool:
        """True if ncu could measure none of the launches."""
        return has_failed(self.first)

    @property
    def count(self) -> int:
        """Return the number of launches."""
        return len(self.kernels)

    @property
    def typical(self) -> KernelProfile:
        """Return the first launch with the medians of all launches."""
        if len(self.kernels) < 2:
            return self.first
        names = dict.fromkeys(name for kernel in self.kernels for name in kernel.metrics)
        medians = {
            name: _median([k.metrics[name] for k in self.kernels if name in k.metrics]) for name in names
        }
        return replace(self.first, metrics=medians)

    @property
    def durations_us(self) -> tuple[float, float, float] | None:
        """Return the least, the median and the largest duration in µs; None without one."""
        times = [
            time for kernel in self.kernels if (time := number_in(kernel.metrics, "duration_us")) is not None
        ]
        if not times:
            return None
        return min(times), statistics.median(times), max(times)

    @property
    def total_us(self) -> float:
        """Return the sum of the durations in µs."""
        return sum(number_in(kernel.metrics, "duration_us") or 0.0 for kernel in self.kernels)


def groups_of(kernels: Iterable[KernelProfile], *, each: bool = False) -> list[LaunchGroup]:
    """Group identical launches, in the order of their first ones.

    Args:
        kernels: The launches.
        each: True for a group for each launch.
    """
    found: dict[object, list[KernelProfile]] = {}
    for index, kernel in enumerate(kernels):
        found.setdefault(index if each else _key(kernel) or index, []).append(kernel)
    return [LaunchGroup(tuple(some)) for some in found.values()]


def has_failed(kernel: KernelProfile) -> bool:
    """Return True if ncu could not measure a launch."""
    return isinstance(kernel, ReportKernel) and kernel.failed


def measured(kernels: Sequence[ReportKernel]) -> list[ReportKernel]:
    """Return the launches to combine: none that failed, and only those with a time if any has one."""
    found = [kernel for kernel in kernels if not kernel.failed]
    return [kernel for kernel in found if number_in(kernel.metrics, "duration_us") is not None] or found


def launch_name(kernel: ReportKernel) -> str:
    """Return the place of a launch and the name of its kernel: `#3 square_kernel`."""
    return f"#{kernel.launch} {kernel.name}"


def launch_place(kernel: KernelProfile, index: int) -> int:
    """Return the place of a launch in its file, or else the index that it has in its call."""
    return kernel.launch if isinstance(kernel, ReportKernel) else index


def failure_note(kernels: Sequence[ReportKernel]) -> str:
    """Return a sentence that counts and names the failed launches; empty without one."""
    failed = [kernel for kernel in kernels if kernel.failed]
    if not failed:
        return ""
    names = listed(list(map(launch_name, failed)), 5)
    return f"{len(failed)} of {len(kernels)} launches failed and count nowhere: {names}"


def gpu_names(kernels: Iterable[ReportKernel]) -> list[str]:
    """List the GPUs of launches: `NVIDIA H200 (compute capability 9.0)`."""
    return list(dict.fromkeys(filter(None, map(_gpu_name, kernels))))


def clocks_mhz(kernels: Iterable[ReportKernel]) -> tuple[float, float] | None:
    """Return the least and the largest SM clock of launches in MHz; None if unknown."""
    clocks = [clock for kernel in kernels if (clock := number_in(kernel.metrics, "sm_clock_mhz"))]
    return (min(clocks), max(clocks)) if clocks else None


def difference_notes(old: Sequence[ReportKernel], new: Sequence[ReportKernel]) -> list[str]:
    """Return sentences about what makes two files hard to compare: other GPUs, clocks, failed launches."""
    notes = []
    facts = [
        ({k.gpu for k in side} - {""}, {k.compute_capability for k in side} - {""}) for side in (old, new)
    ]
    if any(one and other and one != other for one, other in zip(*facts, strict=True)):
        before_and_after = (", ".join(gpu_names(kernels)) for kernels in (old, new))
        notes.append(f"other GPUs: {' is compared with '.join(before_and_after)}")
    before, after = (clocks_mhz(kernels) for kernels in (old, new))
    if before and after and abs(sum(after) / sum(before) - 1) > CLOCKS_DIFFER_PCT / 100:
        notes.append(
            f"other clocks: the SMs ran at {between(*before)} MHz in old and {between(*after)} in new"
        )
    for title, kernels in (("old", old), ("new", new)):
        if note := failure_note(kernels):
            notes.append(f"in {title}, {note}")
    return notes


def _key(kernel: KernelProfile) -> tuple[object, ...]:
    """Return the key of identical launches; empty if the grid is not known."""
    gpu = (kernel.gpu, kernel.device) if isinstance(kernel, ReportKernel) else ()
    size = kernel.grid if any(kernel.grid) else kernel.metrics.get("grid_size")
    facts = [
        kernel.metrics.get(name) for name in ("block_size", "registers_per_thread", "shared_memory_per_block")
    ]
    if size is None or has_failed(kernel):
        return ("failed", kernel.name, gpu) if has_failed(kernel) else ()
    is_timed = number_in(kernel.metrics, "duration_us") is not None
    return (kernel.name, kernel.demangled, size, kernel.block, is_timed, *facts, *gpu)


def between(low: float, high: float) -> str:
    """Show one number, or both: `1785 to 1786`."""
    return f"{low:.0f}" if f"{low:.0f}" == f"{high:.0f}" else f"{low:.0f} to {high:.0f}"


def _gpu_name(kernel: ReportKernel) -> str:
    if not kernel.compute_capability:
        return kernel.gpu
    capability = f"compute capability {kernel.compute_capability}"
    return f"{kernel.gpu} ({capability})" if kernel.gpu else f"GPU of {capability}"


def _median(values: Sequence[MetricValue]) -> MetricValue:
    numbers = [value for value in values if not isinstance(value, str)]
    if len(numbers) < len(values):
        return values[0] if len(set(values)) == 1 else "mixed"
    return statistics.median(numbers)
