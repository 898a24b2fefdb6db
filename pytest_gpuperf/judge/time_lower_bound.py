"""The physical floor: the shortest time in which a GPU can do the work that a call has to do.

Only safe claims count. Honest code may read a part of its arguments, keep intermediate values in caches, skip
zeros, or use an algorithm with fewer operations, so that:

- Bytes are those that the test declares, at most the memory of the arguments and outputs: more are visits to
  data that a cache may hold. Outputs in new memory count even if nothing is declared, because the check has
  seen that every element is written. If that memory is not known, as in a closure, all of them pass L2.
- The L2 cache may hold as many of the bytes as it is large, whatever the mode is.
- Operations are those that the test declares, in the fastest type of the chip and with sparsity.
- Counters are of another process, which an autotuner may have given another configuration: half of them.

Sources of the peaks are in `pytest_gpuperf.metrics.chips`. Without a peak nothing is claimed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.judge.result import Finding, Status
from pytest_gpuperf.metrics.chips import OF_TYPE, highest_mhz, peaks_of
from pytest_gpuperf.records.change import show_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_gpuperf.metrics.chips import Peaks
    from pytest_gpuperf.records import GpuInfo, Measurement, Profile, Timing

MARGIN = 0.05
"""A time may be this part of itself below the floor: clocks and times have errors."""
LEAST_US = 0.5
"""Smallest distance of a time from the floor, in microseconds: a cold time is a difference of two times."""
COUNTED = 0.5
"""Part of counted work that is claimed."""
SKIPPED_WORK = (
    "the timed calls skip work: look for results kept from earlier calls, work on other threads, and "
    "launches that happen only while a CUDA graph is captured"
)


class Floor(msgspec.Struct, frozen=True, gc=False):
    """Shortest possible time of a call."""

    time_us: float
    arithmetic: str
    """`524 MB declared - 63 MB in L2 = 461 MB / 4.92 TB/s of DRAM`."""
    declared: str = ""
    """Argument that the claim rests on: `bytes=` or `flops=`; empty if it rests on none."""


def floor_of(measurement: Measurement, gpu: GpuInfo) -> Floor | None:
    """Return the longest of the times that the work of a call takes at least.

    Returns:
        None if nothing is known of the work, or of the GPU.
    """
    timing = measurement.timing
    if timing is None:
        return None
    peaks = peaks_of(gpu, highest_mhz(timing))
    claims = [*_of_memory(measurement, timing, gpu, peaks), *_of_operations(timing, peaks)]
    if measurement.profile is not None:
        claims += _of_counters(measurement.profile, gpu, peaks)
    return max(claims, key=lambda claim: claim.time_us, default=None)


def impossible_time(measurement: Measurement, gpu: GpuInfo) -> Finding | None:
    """Return a finding if a time is below the floor."""
    timing, floor = measurement.timing, floor_of(measurement, gpu)
    if timing is None or floor is None:
        return None
    taken_us = timing.time_us + timing.host_copies_us
    if floor.time_us <= max(taken_us * (1 + MARGIN), taken_us + LEAST_US):
        return None
    line = (
        f"time_us {show_value(taken_us)} is impossible: {floor.arithmetic} = {show_value(floor.time_us)} µs, "
        f"{show_value(floor.time_us / taken_us)} times as long"
    )
    if not floor.declared:
        return Finding(Status.INVALID, line, next_step=SKIPPED_WORK)
    wrong = f"if {floor.declared} is too large, correct it first: count only what one call has to do"
    return Finding(Status.INVALID, line, details=(wrong,), next_step=f"if it is right, {SKIPPED_WORK}")


def _of_memory(measurement: Measurement, timing: Timing, gpu: GpuInfo, peaks: Peaks) -> Iterator[Floor]:
    correctness = measurement.correctness
    own, written = timing.work.argument_bytes or 0, 0
    # A check of a call of another size says nothing of this one.
    if correctness is not None and own and correctness.argument_bytes == own:
        own, written = own + correctness.output_bytes, correctness.written_bytes
    is_more = "of arguments and outputs (bytes= is more)"
    claims = [(timing.bytes, "of bytes=", "bytes="), (written, "of new outputs", "")]
    for claimed, what, declared in claims:
        if not (moved := min(claimed, own or claimed)):
            continue
        shown = f"{_bytes(moved)} {what if moved == claimed else is_more}"
        if peaks.l2_gb_per_s:
            line = f"{shown} / {_rate(peaks.l2_gb_per_s)} of L2"
            yield Floor(moved / peaks.l2_gb_per_s / 1e3, line, declared)
        # Without known memory, all of them may stay in L2.
        if own and peaks.dram_gb_per_s and gpu.l2_bytes and moved > gpu.l2_bytes:
            rest = f"({shown} - {_bytes(gpu.l2_bytes)} that L2 can hold)"
            time_us = (moved - gpu.l2_bytes) / peaks.dram_gb_per_s / 1e3
            yield Floor(time_us, f"{rest} / {_rate(peaks.dram_gb_per_s)} of DRAM", declared)


def _of_operations(timing: Timing, peaks: Peaks) -> Iterator[Floor]:
    if timing.flops and peaks.tflop_per_s:
        fastest = f"{peaks.tflop_per_s:,.0f} TFLOP/s in the fastest type of the GPU"
        line = f"{timing.flops:.3g} operations of flops= / {fastest}"
        yield Floor(timing.flops / peaks.tflop_per_s / 1e6, line, "flops=")


def _of_counters(profile: Profile, gpu: GpuInfo, peaks: Peaks) -> Iterator[Floor]:
    """Claim a part of the counted work, the bytes for each kernel by itself: L2 may hold them in between."""
    counted = [kernel.metrics for kernel in profile.kernels]
    beyond = sum(max(0.0, _number(row.get("dram_bytes")) - gpu.l2_bytes) for row in counted)
    if beyond and peaks.dram_gb_per_s and gpu.l2_bytes:
        what = f"half of {_bytes(beyond)} that were counted beyond L2"
        line = f"{what} / {_rate(peaks.dram_gb_per_s)} of DRAM"
        yield Floor(COUNTED * beyond / peaks.dram_gb_per_s / 1e3, line)
    if peaks.float16_tflop_per_s:
        as_float16 = sum(_number(row.get(name)) / rate for row in counted for name, rate in OF_TYPE.items())
        what = f"half of the operations that were counted, {as_float16:.3g} in float16"
        line = f"{what} / {peaks.float16_tflop_per_s:,.0f} TFLOP/s"
        yield Floor(COUNTED * as_float16 / peaks.float16_tflop_per_s / 1e6, line)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _bytes(count: float) -> str:
    return f"{count / 1e6:,.1f} MB"


def _rate(gb_per_s: float) -> str:
    return f"{gb_per_s / 1e3:.2f} TB/s"
