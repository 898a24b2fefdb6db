"""A kernel table as a terminal shows it. Loads rich."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.trace.kernel_names import RETURNS
from pytest_gpuperf.records import TracedKernel
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.report.kernel_table import show_extent
from pytest_gpuperf.report.layout import Column, cut_middle, lay_out, wrapped
from pytest_gpuperf.report.rows import show_time, three_digits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.records import FusionCandidate, Trace
    from pytest_gpuperf.records.trace import SpanSource

NAME_COLUMNS = 44
"""Longer names are cut."""
WIDE = 120
"""Columns of a terminal from which on the launch is shown too."""
ROW_NAMES = 4
"""Kernels of a fusion candidate that are named."""
_SOURCES: dict[SpanSource, str] = {
    "profiler": "under torch.profiler",
    "cupti": "by CUPTI's records",
    "events": "between CUDA events",
}
_COMMON = re.compile(
    RETURNS.pattern + r"|\(anonymous namespace\)::|at::native::|\bcutlass::Kernel<"
    # Behind its tile size, by which cuBLAS's kernels differ, what they share.
    r"|_stage\d+|_warpsize[\dx]+|_align[a-c]\d+|_execute(?=_)|_kernel__5x_cublas"
)
_ANSWERS = {True: "yes", False: "no", None: "?"}


def trace_line(trace: Trace) -> str:
    """The figures of a trace on one line.

    `42 launches, GPU busy 63 %, gap 2.10 µs, 1 copy, 2 synchronizations, tensor cores 71 %; large_core 55 %`
    """
    launches = _counted(trace.launches, "launch", "launches")
    if 0 < trace.host_launches < trace.launches:
        launches += f" ({trace.host_launches:,} by the host)"
    parts = [launches, f"GPU busy {trace.gpu_busy_pct:.0f} %"]
    if trace.launch_gap_us:
        parts.append(f"gap {show_time(trace.launch_gap_us)}")
    if trace.copies:
        parts.append(_counted(trace.copies, "copy", "copies"))
    if trace.synchronizations:
        parts.append(_counted(trace.synchronizations, "synchronization", "synchronizations"))
    unknown = f"..{trace.tensor_core_share_pct + trace.tensor_cores_unknown_pct:.0f}"
    upper = unknown if trace.tensor_cores_unknown_pct >= 1 else ""
    parts.append(f"tensor cores {trace.tensor_core_share_pct:.0f}{upper} %")
    classes = ", ".join(f"{name} {share:.0f} %" for name, share in trace.class_shares_pct.items())
    return f"trace: {', '.join(parts)}; {classes}"


def region_line(trace: Trace) -> str:
    """Of what the table is, and who measured its span."""
    of = f"{trace.region}, the median of {trace.occurrences}" if trace.region else "the whole trace"
    span = f"{show_time(trace.span_us)} on the GPU {_SOURCES[trace.span_by]}"
    return printable(", ".join(filter(None, (trace.gpu, of, span, f"{show_time(trace.busy_us)} of it busy"))))


def kernel_lines(
    trace: Trace, *, width: int, colour: bool, shown: int | None = None, matching: str = ""
) -> list[str]:
    """The table, the most time first: kernels, copies by direction, and fills.

    Args:
        trace: The trace.
        width: Columns of the terminal.
        colour: Whether ANSI colours may be used.
        shown: How many rows; all by default.
        matching: Regex that is found in the names of the copies and fills to show: `Memcpy HtoD`, `Memset`.
    """
    rows = sorted(
        [*trace.kernels, *(row for row in _transfers(trace) if re.search(matching, row.name))],
        key=lambda row: -row.total_us,
    )
    kernels = rows[:shown]
    if not kernels:
        return []
    facts = [
        Column("grid", [show_extent(kernel.grid) for kernel in kernels]),
        Column("block", [show_extent(kernel.block) for kernel in kernels]),
        Column("waves", [_positive(kernel.waves) for kernel in kernels]),
        Column("regs", [_whole(kernel.registers_per_thread) for kernel in kernels]),
        Column("shared", [_shared(kernel) for kernel in kernels]),
    ]
    titles, entries = lay_out(
        Column("kernel", [short_name(kernel.name) for kernel in kernels], "left"),
        [
            Column("class", [kernel.kernel_class for kernel in kernels], "left"),
            Column("calls", [f"{kernel.calls:,}" for kernel in kernels]),
            Column("total", [show_time(kernel.total_us) for kernel in kernels]),
            Column("mean", [show_time(kernel.mean_us) for kernel in kernels]),
            Column("share", [f"{kernel.share_pct:.1f} %" for kernel in kernels]),
            Column("blocks/SM", [_positive(kernel.blocks_per_sm) for kernel in kernels]),
            *(facts if width >= WIDE else []),
            Column("occupancy", [_occupancy(kernel) for kernel in kernels]),
            Column("tensor", [_ANSWERS[kernel.tensor_cores] for kernel in kernels], "left"),
        ],
        [],
        width=width,
        colour=colour,
    )
    lines = [*titles, *(line for entry in entries for line in entry)]
    left = rows[len(kernels) :]
    if left:
        share = sum(kernel.share_pct for kernel in left)
        lines.append(f"… {len(left)} more ({share:.1f} %)")
    return lines


def _transfers(trace: Trace) -> list[TracedKernel]:
    """A row for each direction of copies, and one for fills."""
    # Where only the time of all copies was recorded, they are one row.
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
        )
        for name, calls, time_us in (*found, ("Memset", trace.memsets, trace.memset_us))
        if calls
    ]


def fusion_lines(candidates: Sequence[FusionCandidate], width: int) -> list[str]:
    """What could be one kernel, and what that saves at most; nothing where there is nothing."""
    if not candidates:
        return []
    lines = ["could be one kernel (saves idle time up to, with memory traffic up to):"]
    for one in candidates:
        names = [short_name(name) for name in one.kernels[:ROW_NAMES]]
        more = f" + {len(one.kernels) - ROW_NAMES} more" if len(one.kernels) > ROW_NAMES else ""
        saved = f"{show_time(one.saved_us)}, {show_time(one.at_most_us)}"
        launches = _counted(one.saved_launches, "launch", "launches")
        times = "once" if one.times == 1 else f"{one.times:,} times"
        lines.append(f"{saved}; {launches}; {times} {' + '.join(names)}{more}")
    return wrapped(lines, width)


def short_name(name: str) -> str:
    """A kernel's name in `NAME_COLUMNS`, without what many kernels have in common."""
    plain = printable(_COMMON.sub("", name))
    if "<" not in plain:
        return cut_middle(plain, NAME_COLUMNS)
    # The first template arguments say which of ATen's elementwise kernels it is, the last are types.
    return plain if len(plain) <= NAME_COLUMNS else f"{plain[: NAME_COLUMNS - 1]}…"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _positive(value: float | None) -> str:
    return three_digits(value) if value else ""


def _whole(value: int) -> str:
    return str(value) if value else ""


def _shared(kernel: TracedKernel) -> str:
    return f"{three_digits(kernel.shared_memory_bytes / 1024)} KiB" if kernel.shared_memory_bytes else ""


def _occupancy(kernel: TracedKernel) -> str:
    return "" if kernel.theoretical_occupancy_pct is None else f"≤{kernel.theoretical_occupancy_pct:.0f} %"
