"""The kernel table of a trace, and its values as lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.counters.counter_source import RETURNS
from pytest_gpuperf.records import TracedKernel
from pytest_gpuperf.report.forms.as_text import cut_middle
from pytest_gpuperf.report.number_format import (
    count,
    show_extent,
    show_shared_memory,
    show_time,
    three_digits,
)
from pytest_gpuperf.report.table import KERNEL_COLUMNS, Column, Table

if TYPE_CHECKING:
    from pytest_gpuperf.records import Trace
    from pytest_gpuperf.records.trace import SpanSource

KERNELS_SHOWN = 8
"""Maximum number of kernels below the row of a call; `gpuperf trace` shows all."""
_SOURCES: dict[SpanSource, str] = {
    "profiler": "under torch.profiler",
    "cupti": "by CUPTI's records",
    "events": "between CUDA events",
}
_COMMON = re.compile(
    RETURNS.pattern + r"|\(anonymous namespace\)::|at::native::|\bcutlass::Kernel<"
    # The parts that cuBLAS's kernels share, after the tile size by which they differ.
    r"|_stage\d+|_warpsize[\dx]+|_align[a-c]\d+|_execute(?=_)|_kernel__5x_cublas"
)
_ANSWERS = {True: "yes", False: "no", None: "?"}


def trace_line(trace: Trace) -> str:
    """Return the values of a trace.

    `42 launches, GPU busy 63 %, gap 2.10 µs, 1 copy, 2 synchronizations, tensor cores 71 %; large_core 55 %`
    """
    launches = count(trace.launches, "launch", "launches")
    if 0 < trace.host_launches < trace.launches:
        launches += f" ({trace.host_launches:,} by the host)"
    parts = [launches]
    if trace.gpu_busy_pct is not None:
        parts.append(f"GPU busy {trace.gpu_busy_pct:.0f} %")
    if trace.launch_gap_us:
        parts.append(f"gap {show_time(trace.launch_gap_us)}")
    if trace.copies:
        parts.append(count(trace.copies, "copy", "copies"))
    if trace.synchronizations:
        parts.append(count(trace.synchronizations, "synchronization"))
    unknown = f"..{trace.tensor_core_share_pct + trace.tensor_cores_unknown_pct:.0f}"
    upper = unknown if trace.tensor_cores_unknown_pct >= 1 else ""
    parts.append(f"tensor cores {trace.tensor_core_share_pct:.0f}{upper} %")
    classes = ", ".join(f"{name} {share:.0f} %" for name, share in trace.class_shares_pct.items())
    return f"trace: {', '.join(parts)}; {classes}"


def region_line(trace: Trace) -> str:
    """Name the GPU and the part of the trace, with the time on the GPU and its source."""
    of = f"{trace.region}, the median of {trace.occurrences}" if trace.region else "the whole trace"
    span = f"{show_time(trace.span_us)} on the GPU {_SOURCES[trace.span_source]}"
    busy = "" if trace.gpu_busy_pct is None else f"{show_time(trace.busy_us)} of it busy"
    kernels = "" if trace.computation_us is None else f"kernels {show_time(trace.kernel_us)} in sum"
    others = ", ".join(map(str, trace.other_gpus))
    left_out = f"not shown: GPU {others}, which worked too" if others else ""
    return ", ".join(filter(None, (trace.gpu, of, span, busy, kernels, left_out)))


def kernel_table(trace: Trace, *, shown: int | None = None, matching: str = "") -> Table:
    """Return the table of kernels, copies by direction, and fills, the most time first.

    Args:
        trace: The trace.
        shown: The number of rows; all by default.
        matching: Regex found in the names of the copies and fills to show: `Memcpy HtoD`, `Memset`.
    """
    rows = sorted(
        [*trace.kernels, *(row for row in transfers(trace) if re.search(matching, row.name))],
        key=lambda row: -row.total_us,
    )
    kernels, left = rows[:shown], rows[shown:] if shown is not None else []
    if not kernels:
        return Table(notes=["no such kernel"])
    columns = [
        Column("kernel", [short_name(kernel.name) for kernel in kernels], "name", code=True),
        Column("class", [kernel.kernel_class for kernel in kernels], left=True),
        Column("calls", [f"{kernel.calls:,}" for kernel in kernels]),
        Column("total", [show_time(kernel.total_us) for kernel in kernels]),
        Column("mean", [show_time(kernel.mean_us) for kernel in kernels]),
        Column("category", [kernel.category for kernel in kernels], left=True, wide=True),
        Column("share", [f"{kernel.share_pct:.1f} %" for kernel in kernels]),
        Column("blocks/SM", [_positive(kernel.blocks_per_sm) for kernel in kernels]),
        Column("grid", [show_extent(kernel.grid) for kernel in kernels], wide=True),
        Column("block", [show_extent(kernel.block) for kernel in kernels], wide=True),
        Column("waves", [_positive(kernel.waves) for kernel in kernels], wide=True),
        Column("regs", [str(kernel.registers_per_thread or "") for kernel in kernels], wide=True),
        Column("shared", [show_shared_memory(kernel.shared_memory_bytes) for kernel in kernels], wide=True),
        Column("occupancy", [_occupancy(kernel) for kernel in kernels]),
        Column("tensor", [_ANSWERS[kernel.tensor_cores] for kernel in kernels], left=True),
    ]
    share = sum(kernel.share_pct for kernel in left)
    return Table(columns, notes=[f"… {len(left)} more ({share:.1f} %)"] if left else [])


def table_below_row(trace: Trace, *, details: bool) -> Table:
    """Return the values of a trace, with its first kernels if details are shown."""
    kernels = kernel_table(trace, shown=KERNELS_SHOWN)
    shown = kernels if details and kernels.columns else Table()
    return Table(shown.columns, [trace_line(trace)], shown.notes)


def transfers(trace: Trace) -> list[TracedKernel]:
    """Return a row for each direction of copies, and one for fills."""
    # Copies are one row if only the time of all of them was recorded.
    copies_us = trace.copy_kinds_us or {", ".join(trace.copy_kinds): trace.copy_us}
    found = [
        (f"Memcpy {kind}", trace.copy_kinds.get(kind, trace.copies), time_us)
        for kind, time_us in copies_us.items()
    ]
    return [
        TracedKernel(
            name=name,
            kernel_class="data_movement",
            calls=calls,
            total_us=time_us,
            mean_us=time_us / calls,
            share_pct=100 * time_us / trace.gpu_time_us if trace.gpu_time_us else 0.0,
            tensor_cores=False,
            category="data_movement",
        )
        for name, calls, time_us in (*found, ("Memset", trace.memsets, trace.memset_us))
        if calls
    ]


def short_name(name: str) -> str:
    """Shorten the name of a kernel to `KERNEL_COLUMNS`, first by the parts that many kernels share."""
    plain = _COMMON.sub("", name)
    if "<" not in plain:
        return cut_middle(plain, KERNEL_COLUMNS)
    # The first template arguments tell ATen's elementwise kernels apart, the last are types.
    return plain if len(plain) <= KERNEL_COLUMNS else f"{plain[: KERNEL_COLUMNS - 1]}…"


def _positive(value: float | None) -> str:
    return three_digits(value) if value else ""


def _occupancy(kernel: TracedKernel) -> str:
    return "" if kernel.theoretical_occupancy_pct is None else f"≤{kernel.theoretical_occupancy_pct:.0f} %"
