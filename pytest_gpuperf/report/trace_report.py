"""The kernel table of a trace, its values, and the chains of kernels that could be one."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.features.explain.diagnosis import diagnose_call, lines_of
from pytest_gpuperf.features.trace.overview import overview_table, split_lines, unread_line
from pytest_gpuperf.measure.trace.kernel_names import RETURNS
from pytest_gpuperf.records import TracedKernel
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.report.forms.as_text import cut_middle
from pytest_gpuperf.report.show import (
    count,
    show_extent,
    show_shared_memory,
    show_time,
    three_digits,
)
from pytest_gpuperf.report.table import Column, Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gpuperf.features.trace.files import GpuTrace
    from pytest_gpuperf.records import FusionCandidate, Trace
    from pytest_gpuperf.records.trace import SpanSource

NAME_COLUMNS = 44
"""Longer names are cut."""
ROWS_OF_SEVERAL = 10
"""Maximum number of kernels of each of several ranks or GPUs."""
ROW_NAMES = 4
"""Kernels of a fusion candidate that are named."""
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
    parts = [launches, f"GPU busy {trace.gpu_busy_pct:.0f} %"]
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
    busy = f"{show_time(trace.busy_us)} of it busy"
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
        [*trace.kernels, *(row for row in _transfers(trace) if re.search(matching, row.name))],
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


@dataclass(frozen=True)
class FoundTrace:
    """One trace from a run or a file."""

    nodeid: str
    """Empty for a file."""
    label: str
    trace: Trace
    file: Path
    """The Chrome trace, which a recording does not have."""
    source: GpuTrace | None = None
    """Rank, steps and remarks of a file; None for a run."""

    @property
    def title(self) -> str:
        """The test, or the file."""
        return (self.nodeid or show_path(self.file)) + (
            f" ({self.label})" if self.label not in ("", "main") else ""
        )

    @property
    def rank(self) -> int | None:
        """Rank of the process; None if it is not known."""
        return self.source.rank if self.source else None

    @property
    def heading(self) -> str:
        """The title, with rank and GPU if it is a file."""
        if self.source is None:
            return self.title
        of = f" of {self.source.world_size}" if self.source.world_size else ""
        rank = "" if self.rank is None else f"rank {self.rank}{of}, "
        return f"{rank}GPU {self.trace.device}, {self.title}"


def trace_report(
    traces: Sequence[FoundTrace], *, matching: str, explained: bool, remarks: Sequence[str] = ()
) -> Report:
    """Return the kernel tables of traces.

    Args:
        traces: The traces.
        matching: Regex found in the names of the copies and fills to show.
        explained: True to add the bounds of each call.
        remarks: Lines for the end.
    """
    tables: list[Table] = []
    several = len({(one.file, one.trace.device) for one in traces if one.source}) > 1
    rows = [row for one in traces if one.source for row in _overview_rows(one, several=several)]
    if len(rows) > 1:
        tables.append(overview_table(rows))
    for one in traces:
        shown = kernel_table(one.trace, matching=matching, shown=ROWS_OF_SEVERAL if several else None)
        above = [
            one.heading if several or one.rank is not None else one.title,
            region_line(one.trace),
            trace_line(one.trace),
        ]
        above += split_lines(one.trace) if one.trace.computation_us is not None else []
        tables.append(Table(shown.columns, above, [*shown.notes, *_outside(one)]))
        tables.append(Table(notes=[] if several else fusion_lines(one.trace.fusion_candidates)))
        tables.append(Table(notes=lines_of(diagnose_call(one.trace)) if explained else []))
    tables.append(Table(notes=[*_unread(traces), *remarks]))
    return Report(
        tables=tables,
        records=[
            {"nodeid": one.nodeid, "label": one.label, **_record(row), **_place(one)}
            for one in traces
            for row in (*one.trace.kernels, *(_transfers(one.trace) if one.source and not matching else ()))
        ],
        data=[
            {
                "nodeid": one.nodeid,
                "label": one.label,
                **_place(one),
                "trace": all_fields(one.trace),
                "steps": [_without_kernels(step) for step in one.source.steps] if one.source else [],
                "outside_steps": one.source.outside if one.source else 0,
                "not_shown": {"events": one.source.unread, "fields": one.source.unread_fields}
                if one.source
                else None,
                "left_out": list(remarks),
            }
            for one in traces
        ],
    )


def all_fields(value: object) -> object:
    """Return a record as objects of JSON, also the fields with their default values."""
    if isinstance(value, msgspec.Struct):
        return {name: all_fields(getattr(value, name)) for name in value.__struct_fields__}
    return [all_fields(one) for one in value] if isinstance(value, tuple) else value


def _without_kernels(step: Trace) -> dict[str, object]:
    left_out = ("kernels", "fusion_candidates", "file", "occurrences")
    return {name: all_fields(getattr(step, name)) for name in step.__struct_fields__ if name not in left_out}


def _place(one: FoundTrace) -> dict[str, object]:
    return {
        "file": show_path(one.file) if one.source else one.trace.file,
        "rank": one.rank,
        "world_size": one.source.world_size if one.source else None,
        "device": one.trace.device,
        "gpu": one.trace.gpu,
    }


def _overview_rows(one: FoundTrace, *, several: bool) -> list[tuple[str, str, Trace]]:
    heading = one.heading if several else ""
    steps = one.source.steps if one.source else ()
    whole = [] if one.trace.region and steps else [("the whole trace", one.trace)]
    return [(heading, name, trace) for name, trace in (*whole, *((step.region, step) for step in steps))]


def _outside(one: FoundTrace) -> list[str]:
    if one.source is None or not one.source.outside:
        return []
    outside = count(one.source.outside, "activity", "activities")
    where = "the steps" if one.source.steps[0].region.startswith("ProfilerStep#") else "these annotations"
    return [f"{outside} ({show_time(one.source.outside_us)}) launched outside {where}"]


def _unread(traces: Sequence[FoundTrace]) -> list[str]:
    files = {one.file: one.source for one in traces if one.source}
    events: Counter[str] = Counter()
    fields: set[str] = set()
    for source in files.values():
        events.update(source.unread)
        fields.update(source.unread_fields)
    return unread_line(events, sorted(fields))


def _record(kernel: TracedKernel) -> dict[str, object]:
    record = msgspec.structs.asdict(kernel)
    return {**record, "grid": "x".join(map(str, kernel.grid)), "block": "x".join(map(str, kernel.block))}


def _transfers(trace: Trace) -> list[TracedKernel]:
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


def fusion_lines(candidates: Sequence[FusionCandidate]) -> list[str]:
    """Return the chains of kernels that could be one kernel, with the most that each saves."""
    if not candidates:
        return []
    lines = ["could be one kernel (saves idle time up to, with memory traffic up to):"]
    for one in candidates:
        names = [short_name(name) for name in one.kernels[:ROW_NAMES]]
        more = f" + {len(one.kernels) - ROW_NAMES} more" if len(one.kernels) > ROW_NAMES else ""
        saved = f"{show_time(one.saved_us)}, {show_time(one.at_most_us)}"
        launches = count(one.saved_launches, "launch", "launches")
        times = "once" if one.times == 1 else f"{one.times:,} times"
        lines.append(f"{saved}; {launches}; {times} {' + '.join(names)}{more}")
    return lines


def short_name(name: str) -> str:
    """Shorten the name of a kernel to `NAME_COLUMNS`, first by the parts that many kernels share."""
    plain = _COMMON.sub("", name)
    if "<" not in plain:
        return cut_middle(plain, NAME_COLUMNS)
    # The first template arguments tell ATen's elementwise kernels apart, the last are types.
    return plain if len(plain) <= NAME_COLUMNS else f"{plain[: NAME_COLUMNS - 1]}…"


def _positive(value: float | None) -> str:
    return three_digits(value) if value else ""


def _occupancy(kernel: TracedKernel) -> str:
    return "" if kernel.theoretical_occupancy_pct is None else f"≤{kernel.theoretical_occupancy_pct:.0f} %"
