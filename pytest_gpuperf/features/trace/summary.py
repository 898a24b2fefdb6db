"""Summarise the events of one region of a trace as a kernel table."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trace.kernel_categories import category_of
from pytest_gpuperf.features.trace.kernel_classes import classify
from pytest_gpuperf.features.trace.kernel_name_patterns import tensor_cores_of
from pytest_gpuperf.features.trace.regions import CALL_MARK, annotations_of, regions_of, whole
from pytest_gpuperf.features.trace.time_breakdown import split_span
from pytest_gpuperf.measure.device.occupancy import occupancy
from pytest_gpuperf.records import Trace, TracedKernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.features.trace.chrome_traces import ChromeTrace, Device, TraceActivity, TraceArguments
    from pytest_gpuperf.features.trace.regions import Region
    from pytest_gpuperf.records.trace import SpanSource

NAMES_SHOWN = 8
"""Maximum number of annotations or kernels that an error names."""

_DIRECTION = re.compile(r"\b(?:[HDPA]to[HDPA])\b")


def summarise(trace: ChromeTrace, *, annotation: str | None = None) -> Trace:
    r"""Make the kernel table.

    Among several GPUs in one trace, the busiest is taken; among several occurrences of an annotation, the one
    with the median GPU time.

    Args:
        trace: The events.
        annotation: Regex that matches the whole name of an annotation, such as `ProfilerStep#\d+`; by default
            the plugin's own annotation if the trace has it, else the whole file is one region.

    Raises:
        GpuperfError: The regex is broken, or nothing ran on the GPU in its matches.
    """
    gpus = devices_of(trace)
    device_id = max(gpus, key=lambda gpu: gpus[gpu])
    others = tuple(gpu for gpu in gpus if gpu != device_id)
    return replace(summarise_gpu(trace, device_id, annotation=annotation), other_gpus=others)


def devices_of(trace: ChromeTrace) -> dict[int, float]:
    """Return the GPUs with activities, sorted, and the sum of their durations in microseconds."""
    time_us: dict[int, float] = defaultdict(float)
    for one in trace.activities:
        time_us[one.device] += one.end_us - one.start_us
    return dict(sorted(time_us.items()))


def summarise_gpu(trace: ChromeTrace, device_id: int, *, annotation: str | None = None) -> Trace:
    """Make the kernel table of one GPU; see `summarise`."""
    region, occurrences = median_region(trace, device_id, annotation=annotation)
    return replace(table(region, trace, device_id), occurrences=occurrences)


def median_region(trace: ChromeTrace, device_id: int, *, annotation: str | None = None) -> tuple[Region, int]:
    """Return the occurrence of an annotation with the median GPU time, and their number.

    Args:
        trace: The events.
        device_id: The GPU.
        annotation: See `summarise`.

    Raises:
        GpuperfError: As `summarise`.
    """
    of_one = [one for one in trace.activities if one.device == device_id]
    named = annotations_of(trace, annotation)
    regions = regions_of(trace, of_one, named) if named is not None else [whole(trace, of_one)]
    if not regions:
        raise no_annotation(trace, annotation or CALL_MARK)
    return sorted(regions, key=lambda one: one.gpu_time_us)[(len(regions) - 1) // 2], len(regions)


def no_annotation(trace: ChromeTrace, annotation: str) -> GpuperfError:
    """Return the error if no annotation matches, with the names of others."""
    names = sorted({one.name for one in trace.annotations})
    return GpuperfError(
        f"no annotation that matches {annotation!r} has an activity of a GPU",
        expected=f"one of {', '.join(names[:NAMES_SHOWN]) or 'none'}",
    )


def with_span(trace: Trace, span_us: float, busy_us: float, by: SpanSource) -> Trace:
    """Return the trace with another span and the values derived from it.

    Args:
        trace: Trace of the profiler.
        span_us: Microseconds from the first activity's start to the end of the last, or a bound of it.
        busy_us: Busy microseconds of the span.
        by: Source of the span.
    """
    activities = trace.launches + trace.copies + trace.memsets
    gap_us = max(0.0, span_us - busy_us) / (activities - 1) if activities > 1 else 0.0
    return replace(
        trace,
        span_us=span_us,
        span_source=by,
        busy_us=busy_us,
        idle=trace.idle if by == "profiler" else None,
        gpu_busy_pct=None if trace.gpu_busy_pct is None else min(100.0, share_pct(busy_us, span_us)),
        launch_gap_us=0.0 if trace.gpu_busy_pct is None else gap_us,
    )


def table(region: Region, trace: ChromeTrace, device_id: int = 0) -> Trace:
    """Make the kernel table of a region of one GPU; see `summarise`."""
    device = trace.device(device_id)
    activities = region.activities
    gpu_time_us = region.gpu_time_us
    groups: dict[tuple[object, ...], list[TraceActivity]] = defaultdict(list)
    for one in activities:
        if one.kind == "kernel":
            groups[_group(one)].append(one)
    rows = [_row(group, gpu_time_us, device, trace) for group in groups.values()]
    classes = dict(zip(groups, classify(rows), strict=True))
    kernels = [
        replace(row, kernel_class=classes[key], category=category_of(row.name), position=position)
        for position, (key, row) in enumerate(zip(groups, rows, strict=True))
    ]
    kernels.sort(key=lambda kernel: (-kernel.total_us, kernel.name))

    copies = [one for one in activities if one.kind == "memcpy"]
    memsets = [one for one in activities if one.kind == "memset"]
    copy_us, memset_us = _time_us(copies), _time_us(memsets)
    moved_us = copy_us + memset_us
    moved_pct = share_pct(moved_us, gpu_time_us)
    directions: dict[str, list[TraceActivity]] = defaultdict(list)
    for one in copies:
        directions[_direction(one.name)].append(one)
    span_us = max(one.end_us for one in activities) - activities[0].start_us
    split = split_span(activities, trace.launched_us)
    made = Trace(
        kernels=tuple(kernels),
        launches=sum(kernel.calls for kernel in kernels),
        host_launches=len({one.args.correlation for one in activities if one.kind == "kernel"} - {0}),
        profiled_span_us=span_us,
        gpu_time_us=gpu_time_us,
        kernel_us=sum(kernel.total_us for kernel in kernels),
        computation_us=split.computation_us,
        communication=split.communication,
        exposed_copy_us=split.exposed_copy_us,
        idle=split.idle if region.is_complete else None,
        gpu_busy_pct=0.0 if region.is_complete else None,
        copies=len(copies),
        copy_bytes=sum(one.args.bytes for one in copies),
        copy_us=copy_us,
        copy_kinds={kind: len(some) for kind, some in sorted(directions.items())},
        copy_kinds_us={kind: _time_us(some) for kind, some in sorted(directions.items())},
        memsets=len(memsets),
        memset_us=memset_us,
        synchronizations=region.synchronizations,
        class_shares_pct=_sums(((one.kernel_class, one.share_pct) for one in kernels), moved_pct),
        category_us=_sums(((one.category, one.total_us) for one in kernels), moved_us),
        tensor_core_share_pct=_sum_of_shares(kernels, known=True),
        tensor_cores_unknown_pct=_sum_of_shares(kernels, known=None),
        streams=len({one.stream for one in activities}),
        region=region.name,
        gpu=device.name,
        device=device_id,
    )
    return with_span(made, span_us, split.busy_us, "profiler")


def _group(one: TraceActivity) -> tuple[object, ...]:
    args = one.args
    return one.name, args.grid, args.block, args.registers_per_thread, args.shared_memory_bytes


def _row(
    group: Sequence[TraceActivity],
    gpu_time_us: float,
    device: Device,
    trace: ChromeTrace,
) -> TracedKernel:
    first, args = group[0], group[0].args
    total_us = _time_us(group)
    blocks = math.prod(args.grid)
    blocks_per_sm = blocks / device.multiprocessors if device.multiprocessors else args.blocks_per_sm
    fits = _fits(args, device)
    by_code = trace.tensor_cores(first) if trace.tensor_cores else None
    return TracedKernel(
        name=first.name,
        calls=len(group),
        total_us=total_us,
        mean_us=total_us / len(group),
        share_pct=share_pct(total_us, gpu_time_us),
        grid=args.grid,
        block=args.block,
        blocks_per_sm=blocks_per_sm,
        waves=blocks_per_sm / fits[1] if fits and blocks_per_sm else None,
        registers_per_thread=args.registers_per_thread,
        shared_memory_bytes=args.shared_memory_bytes,
        theoretical_occupancy_pct=fits[0] if fits else None,
        tensor_cores=tensor_cores_of(first.name) if by_code is None else by_code,
    )


def _fits(kernel: TraceArguments, device: Device) -> tuple[float, int] | None:
    """Return theoretical occupancy in percent and blocks of an SM; Kineto's own is 0 for Hopper clusters."""
    threads = math.prod(kernel.block)
    if device.compute_capability is None or not threads:
        return None
    try:
        found = occupancy(
            device.compute_capability,
            block_size=threads,
            registers_per_thread=kernel.registers_per_thread,
            shared_memory_per_block=kernel.shared_memory_bytes,
        )
    except GpuperfError:
        return None
    return (found.theoretical_occupancy_pct, found.blocks_per_sm) if found.blocks_per_sm else None


def _time_us(activities: Iterable[TraceActivity]) -> float:
    return sum(one.end_us - one.start_us for one in activities)


def _direction(name: str) -> str:
    found = _DIRECTION.search(name)
    return found[0] if found else "other"


def _sums(parts: Iterable[tuple[str, float]], moved: float) -> dict[str, float]:
    """Return the sum of each name, the largest first; copies and fills are data movement."""
    sums = {"data_movement": moved} if moved else {}
    for name, part in parts:
        sums[name] = sums.get(name, 0.0) + part
    return dict(sorted(sums.items(), key=lambda one: -one[1]))


def _sum_of_shares(kernels: Sequence[TracedKernel], *, known: bool | None) -> float:
    return sum(kernel.share_pct for kernel in kernels if kernel.tensor_cores is known)


def share_pct(part: float, whole: float) -> float:
    """Return a part of a whole, in percent; 0 without a whole."""
    return 100 * part / whole if whole else 0.0
