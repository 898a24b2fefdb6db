"""Kernel tables of traces, one below the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.features.trace.kernel_table import kernel_table, region_line, trace_line, transfers
from pytest_gpuperf.features.trace.overview import overview_table, split_lines
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.records.call import with_label
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.registry import registry
from pytest_gpuperf.report.table import Report, Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gpuperf.features.trace.files import GpuTrace
    from pytest_gpuperf.records import Trace, TracedKernel

ROWS_OF_SEVERAL = 10
"""Maximum number of kernels of each of several ranks or GPUs."""


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
        return with_label(self.nodeid or show_path(self.file), self.label)

    @property
    def rank(self) -> int | None:
        """Rank of the process; None if it is not known."""
        return self.source.rank if self.source else None

    @property
    def has_file(self) -> bool:
        """True for a test of a run of this machine, whose Chrome trace is still there."""
        return self.source is None and self.file.is_file()

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
            *([f"for https://ui.perfetto.dev: {show_path(one.file)}"] if one.has_file else []),
            region_line(one.trace),
            trace_line(one.trace),
        ]
        above += split_lines(one.trace) if one.trace.computation_us is not None else []
        tables.append(Table(shown.columns, above, shown.notes))
        tables.append(Table(notes=_explanation(one.trace) if explained else []))
    tables.append(Table(notes=remarks))
    return Report(
        tables=tables,
        records=[
            {"nodeid": one.nodeid, "label": one.label, **_record(row), **_place(one)}
            for one in traces
            for row in (*one.trace.kernels, *(transfers(one.trace) if one.source and not matching else ()))
        ],
        data=[
            {
                "nodeid": one.nodeid,
                "label": one.label,
                **_place(one),
                "trace": all_fields(one.trace),
                "steps": [_without_kernels(step) for step in one.source.steps] if one.source else [],
                "remarks": list(remarks),
            }
            for one in traces
        ],
    )


def _explanation(trace: Trace) -> list[str]:
    measured = Measurement(trace=trace)
    return [line for explain in registry().explanations for line in explain(measured)]


def all_fields(value: object) -> object:
    """Return a record as objects of JSON, also the fields with their default values."""
    if isinstance(value, msgspec.Struct):
        return {name: all_fields(getattr(value, name)) for name in value.__struct_fields__}
    return [all_fields(one) for one in value] if isinstance(value, tuple) else value


def _without_kernels(step: Trace) -> dict[str, object]:
    left_out = ("kernels", "file", "occurrences")
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


def _record(kernel: TracedKernel) -> dict[str, object]:
    record = msgspec.structs.asdict(kernel)
    return {**record, "grid": "x".join(map(str, kernel.grid)), "block": "x".join(map(str, kernel.block))}
