"""Summarise the events of one region of a trace as a kernel table."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device.occupancy import occupancy
from pytest_gpuperf.measure.trace.chrome import Device
from pytest_gpuperf.measure.trace.classes import class_shares_pct, classify
from pytest_gpuperf.measure.trace.fusion import Launch, fusion_candidates
from pytest_gpuperf.measure.trace.kernel_names import tensor_cores_of
from pytest_gpuperf.records import Trace, TracedKernel
from pytest_gpuperf.records.selection import check_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_gpuperf.measure.trace.chrome import Activity, Annotation, ChromeTrace
    from pytest_gpuperf.records.trace import SpanSource

CALL_MARK = "gpuperf.call"
"""Annotation around each call that the plugin records; between two of them the host waits for the GPU."""
CLOCKS_US = 2.0
"""Possible difference between the host's clock and that of CUPTI's records; launches are further apart."""

_SYNCHRONIZE = re.compile(r"(?:cuda|cu|hip)(?:Device|Ctx|Stream|Event)Synchronize")
_DIRECTION = re.compile(r"\b(?:[HDPA]to[HDPA])\b")


class Region(NamedTuple):
    """Activities of the GPU in one occurrence of an annotation, or in the whole file."""

    name: str
    """Name of the annotation; empty for the whole file."""
    activities: list[Activity]
    synchronizations: int

    @property
    def gpu_time_us(self) -> float:
        """Return the sum of the activities' durations, in microseconds."""
        return _time_us(self.activities)


def summarise(
    trace: ChromeTrace,
    *,
    annotation: str | None = None,
    tensor_cores: Callable[[Activity], bool | None] | None = None,
) -> Trace:
    r"""Make the kernel table.

    Among several GPUs in one trace, the busiest is taken; among several occurrences of an annotation, the one
    with the median GPU time.

    Args:
        trace: The events.
        annotation: Regex that matches the whole name of an annotation, such as `ProfilerStep#\d+`; by default
            the plugin's own annotation if the trace has it, else the whole file is one region.
        tensor_cores: Tells for some kernels, by their code, if they use tensor cores; else None.

    Raises:
        GpuperfError: The regex is broken, or nothing ran on the GPU in its matches.
    """
    device_id = _busiest(trace.activities)
    trace_of_one = [one for one in trace.activities if one.device == device_id]
    named = _annotations(trace, annotation)
    regions = _regions(trace, trace_of_one, named) if named is not None else [_whole(trace, trace_of_one)]
    if not regions:
        raise GpuperfError(
            f"no annotation that matches {annotation or CALL_MARK!r} has an activity of a GPU",
            expected=f"one of {', '.join(sorted({one.name for one in trace.annotations})[:8]) or 'none'}",
        )
    region = sorted(regions, key=lambda one: one.gpu_time_us)[(len(regions) - 1) // 2]
    device = dict(trace.devices).get(device_id, Device())
    made = _table(region, device, tensor_cores)
    return replace(made, region=region.name, occurrences=len(regions), gpu=device.name)


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
    scale = gap_us / trace.launch_gap_us if trace.launch_gap_us else 0.0
    return replace(
        trace,
        span_us=span_us,
        span_source=by,
        busy_us=busy_us,
        gpu_busy_pct=min(100.0, 100 * busy_us / span_us) if span_us else 0.0,
        launch_gap_us=gap_us,
        fusion_candidates=tuple(
            replace(
                one,
                saved_us=one.saved_us * scale,
                at_most_us=one.at_most_us - one.saved_us * (1 - scale),
            )
            for one in trace.fusion_candidates
        ),
    )


def busy_us(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of intervals sorted by their start: overlaps count once."""
    total, covered = 0.0, float("-inf")
    for start, end in intervals:
        total += max(0.0, end - max(start, covered))
        covered = max(covered, end)
    return total


def _busiest(activities: Iterable[Activity]) -> int:
    time_us: dict[int, float] = defaultdict(float)
    for one in activities:
        time_us[one.device] += one.end_us - one.start_us
    return max(time_us, key=time_us.__getitem__, default=0)


def _annotations(trace: ChromeTrace, annotation: str | None) -> list[Annotation] | None:
    """Return the annotations whose regions are wanted; None for the whole file."""
    if annotation is None:
        own = [one for one in trace.annotations if one.name == CALL_MARK]
        return own or None
    check_regex(annotation, "of annotations")
    return [one for one in trace.annotations if re.fullmatch(annotation, one.name)]


def _whole(trace: ChromeTrace, activities: list[Activity]) -> Region:
    return Region("", activities, len({call.correlation for call in trace.host_calls if _waits(call.name)}))


def _regions(
    trace: ChromeTrace, activities: Sequence[Activity], annotations: Sequence[Annotation]
) -> list[Region]:
    """Return the activities that each annotation's host code launched, on any thread, at any time."""
    if not annotations:
        return []
    own = annotations[0].name == CALL_MARK
    slack = CLOCKS_US if own else 0.0
    launched = {call.correlation: call.start_us for call in trace.host_calls if call.correlation}
    ends = [*(one.start_us for one in annotations[1:]), float("inf")]
    regions = []
    for annotation, next_start in zip(annotations, ends, strict=True):
        inside = []
        for one in activities:
            at = launched.get(one.correlation)
            # Some launches are not recorded (Triton's by older versions): use the activity's own time.
            last = next_start if own or at is None else annotation.end_us
            if annotation.start_us <= (one.start_us if at is None else at) + slack < last:
                inside.append(one)
        if inside:
            waits = [
                call.correlation
                for call in trace.host_calls
                if annotation.start_us <= call.start_us < annotation.end_us and _waits(call.name)
            ]
            regions.append(Region(annotation.name, inside, len(set(waits))))
    return regions


def _waits(name: str) -> bool:
    return _SYNCHRONIZE.match(name) is not None


def _table(region: Region, device: Device, tensor_cores: Callable[[Activity], bool | None] | None) -> Trace:
    activities = region.activities
    gpu_time_us = region.gpu_time_us
    groups: dict[tuple[object, ...], list[Activity]] = defaultdict(list)
    for one in activities:
        if one.kind == "kernel":
            groups[_group(one)].append(one)
    rows = [_row(group, gpu_time_us, device, tensor_cores) for group in groups.values()]
    classes = dict(zip(groups, classify(rows), strict=True))
    kernels = [replace(row, kernel_class=classes[key]) for key, row in zip(groups, rows, strict=True)]
    kernels.sort(key=lambda kernel: (-kernel.total_us, kernel.name))

    copies = [one for one in activities if one.kind == "memcpy"]
    memsets = [one for one in activities if one.kind == "memset"]
    copy_us, memset_us = _time_us(copies), _time_us(memsets)
    directions: dict[str, list[Activity]] = defaultdict(list)
    for one in copies:
        directions[_direction(one.name)].append(one)
    span_us = max(one.end_us for one in activities) - activities[0].start_us
    busy = busy_us((one.start_us, one.end_us) for one in activities)
    gap_us = (span_us - busy) / (len(activities) - 1) if len(activities) > 1 else 0.0
    streams: dict[int | str, list[Launch]] = defaultdict(list)
    for one in activities:
        kernel_class = classes[_group(one)] if one.kind == "kernel" else None
        streams[one.stream].append(Launch(one.name, one.end_us - one.start_us, kernel_class))
    return Trace(
        kernels=tuple(kernels),
        launches=sum(kernel.calls for kernel in kernels),
        host_launches=len({one.correlation for one in activities if one.kind == "kernel"} - {0}),
        span_us=span_us,
        profiled_span_us=span_us,
        busy_us=busy,
        gpu_time_us=gpu_time_us,
        gpu_busy_pct=min(100.0, _share(busy, span_us)),
        launch_gap_us=max(0.0, gap_us),
        copies=len(copies),
        copy_bytes=sum(one.bytes for one in copies),
        copy_us=copy_us,
        copy_kinds={kind: len(some) for kind, some in sorted(directions.items())},
        copy_kinds_us={kind: _time_us(some) for kind, some in sorted(directions.items())},
        memsets=len(memsets),
        memset_us=memset_us,
        synchronizations=region.synchronizations,
        class_shares_pct=class_shares_pct(kernels, _share(copy_us + memset_us, gpu_time_us)),
        tensor_core_share_pct=_sum_of_shares(kernels, known=True),
        tensor_cores_unknown_pct=_sum_of_shares(kernels, known=None),
        fusion_candidates=fusion_candidates(list(streams.values()), _usual_gap_us(activities)),
        streams=len(streams),
    )


def _usual_gap_us(activities: Sequence[Activity]) -> float:
    """Return the median idle time before an activity, at most the mean: pauses do not count."""
    gaps, covered = [], activities[0].end_us
    for one in activities[1:]:
        gaps.append(max(0.0, one.start_us - covered))
        covered = max(covered, one.end_us)
    return min(statistics.median(gaps), statistics.fmean(gaps)) if gaps else 0.0


def _group(one: Activity) -> tuple[object, ...]:
    return one.name, one.grid, one.block, one.registers_per_thread, one.shared_memory_bytes


def _row(
    group: Sequence[Activity],
    gpu_time_us: float,
    device: Device,
    tensor_cores: Callable[[Activity], bool | None] | None,
) -> TracedKernel:
    first = group[0]
    total_us = _time_us(group)
    x, y, z = first.grid
    blocks = x * y * z
    blocks_per_sm = blocks / device.multiprocessors if device.multiprocessors else first.blocks_per_sm
    fits = _fits(first, device)
    by_code = tensor_cores(first) if tensor_cores else None
    return TracedKernel(
        name=first.name,
        calls=len(group),
        total_us=total_us,
        mean_us=total_us / len(group),
        share_pct=_share(total_us, gpu_time_us),
        grid=first.grid,
        block=first.block,
        blocks_per_sm=blocks_per_sm,
        waves=blocks_per_sm / fits[1] if fits and blocks_per_sm else None,
        registers_per_thread=first.registers_per_thread,
        shared_memory_bytes=first.shared_memory_bytes,
        theoretical_occupancy_pct=fits[0] if fits else None,
        tensor_cores=tensor_cores_of(first.name) if by_code is None else by_code,
    )


def _fits(kernel: Activity, device: Device) -> tuple[float, int] | None:
    """Return theoretical occupancy in percent and blocks of an SM; Kineto's own is 0 for Hopper clusters."""
    x, y, z = kernel.block
    if device.compute_capability is None or not x * y * z:
        return None
    try:
        found = occupancy(
            device.compute_capability,
            block_size=x * y * z,
            registers_per_thread=kernel.registers_per_thread,
            shared_memory_per_block=kernel.shared_memory_bytes,
        )
    except GpuperfError:
        return None
    return (found.theoretical_occupancy_pct, found.blocks_per_sm) if found.blocks_per_sm else None


def _time_us(activities: Iterable[Activity]) -> float:
    return sum(one.end_us - one.start_us for one in activities)


def _direction(name: str) -> str:
    found = _DIRECTION.search(name)
    return found[0] if found else "other"


def _sum_of_shares(kernels: Sequence[TracedKernel], *, known: bool | None) -> float:
    return sum(kernel.share_pct for kernel in kernels if kernel.tensor_cores is known)


def _share(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0
