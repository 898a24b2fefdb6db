"""Launches of a call on a time line, from its trace, or the time of each kernel without one."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.page.picture import Axis, Bars, Picture, rounded
from pytest_gpuperf.features.trace.categories import category_of
from pytest_gpuperf.features.trace.chrome import read_chrome_trace
from pytest_gpuperf.features.trace.summary import median_region
from pytest_gpuperf.measure.ncu.kernel_name import function_name
from pytest_gpuperf.report.forms.as_text import cut_middle
from pytest_gpuperf.report.show import count, show_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.features.trace.chrome import Activity
    from pytest_gpuperf.records import Trace

MOST_BARS = 400
"""Maximum number of launches on a time line; close ones of a kind are drawn as one before."""
MOST_KERNELS = 10
_CLOSE = 1 / 800
"""Gap between two launches, as a share of the span, that is less than a pixel."""
_NAME = 28
"""Number of characters of a kernel's name."""
_UNITS = (("µs", 1.0), ("ms", 1e3), ("s", 1e6))
"""Units of a time line and their microseconds."""
_TIPS = 40
"""Number of launches up to which each has the name of its kernel."""


def launches(trace: Trace, folder: Path | None) -> Picture | None:
    """Draw each launch of a call on a time line with a row for each stream.

    Args:
        trace: Kernel table of the call.
        folder: Folder of the run, which has the trace; None if only the kernel table is known.

    Returns:
        The time of each kernel if there is no trace; None without kernels.
    """
    file = _file(trace, folder)
    if file is not None:
        try:
            region, _ = median_region(read_chrome_trace(file), trace.device)
        except GpuperfError as error:
            return kernels(trace, f"The trace is not drawn: {error.found}.")
        return timeline(region.activities, trace)
    return kernels(trace, "The run has no trace with the launches one by one.")


def _file(trace: Trace, folder: Path | None) -> Path | None:
    # A run file may come from anywhere: its trace lies in the folder of the run.
    name = PurePosixPath(trace.file)
    if folder is None or not trace.file or name.is_absolute() or ".." in name.parts:
        return None
    file = folder / name
    return file if file.is_file() else None


class _Bar(NamedTuple):
    """One launch, or several on one stream that are too close to tell apart."""

    row: int
    kind: str
    start: float
    end: float
    longest_us: float
    """Duration of its longest launch, from which it has its kind and name."""
    name: str
    launched: int = 1


def timeline(activities: Sequence[Activity], trace: Trace) -> Picture:
    """Draw activities of a GPU on a time line with a row for each stream.

    Args:
        activities: Sorted by start.
        trace: Kernel table of the same call.
    """
    first = activities[0].start_us
    span = max(one.end_us for one in activities) - first
    unit, scale = next((unit, scale) for unit, scale in _UNITS if span < 2e3 * scale or unit == "s")
    streams = sorted({one.stream for one in activities}, key=lambda stream: (len(str(stream)), str(stream)))
    close_us = span * _CLOSE
    while len(bars := _joined(activities, streams, first, close_us)) > MOST_BARS:
        close_us *= 1.5
    kinds: dict[str, list[_Bar]] = defaultdict(list)
    for bar in bars:
        kinds[bar.kind].append(bar)
    marks = tuple(
        Bars(
            start=rounded(bar.start / scale for bar in own),
            to=rounded(bar.end / scale for bar in own),
            rows=tuple(bar.row for bar in own),
            name=kind,
            tips=tuple(_tip(bar) for bar in own) if len(bars) <= _TIPS else (),
        )
        for kind, own in sorted(kinds.items(), key=lambda found: -_time_us(found[1]))
    )
    busy = f", the GPU is busy {trace.gpu_busy_pct:.0f} % of the call" if trace.gpu_busy_pct else ""
    joined = f"Launches with gaps below {show_time(close_us)} are one bar."
    return Picture(
        title="Launches on a time line",
        description=f"{count(len(activities), 'launch', 'launches')} in {show_time(span)}{busy}.",
        x=Axis(label=f"time ({unit}), under the profiler", low=0.0, high=float(f"{span / scale:.4g}")),
        y=Axis(names=tuple(f"stream {stream}" for stream in streams)),
        marks=marks,
        notes=(joined,) if len(bars) < len(activities) else (),
    )


def _joined(
    activities: Sequence[Activity], streams: Sequence[int | str], first: float, close_us: float
) -> list[_Bar]:
    """Join launches that follow each other closely, of one kind or all within that time; by start."""
    done: list[_Bar] = []
    last: dict[int | str, _Bar] = {}
    rows = {stream: row for row, stream in enumerate(streams)}
    for one in activities:
        category = category_of(one.name) if one.kind == "kernel" else "data_movement"
        kind = "GEMM" if category == "gemm" else category.replace("_", " ")
        length = one.end_us - one.start_us
        bar = _Bar(rows[one.stream], kind, one.start_us - first, one.end_us - first, length, one.name)
        before = last.get(one.stream)
        near = before is not None and bar.start - before.end < close_us
        if before is not None and near and (kind == before.kind or bar.end - before.start < close_us):
            longer = before if before.longest_us >= length else bar
            end = max(before.end, bar.end)
            bar = longer._replace(start=before.start, end=end, launched=before.launched + 1)
            before = None
        if before is not None:
            done.append(before)
        last[one.stream] = bar
    return sorted([*done, *last.values()], key=lambda bar: bar.start)


def _time_us(bars: Iterable[_Bar]) -> float:
    return sum(bar.end - bar.start for bar in bars)


def _tip(bar: _Bar) -> str:
    more = f" and {bar.launched - 1} more" if bar.launched > 1 else ""
    return f"{cut_middle(function_name(bar.name), _NAME)}{more}, {show_time(bar.end - bar.start)}"


def kernels(trace: Trace, note: str) -> Picture | None:
    """Draw the time of each kernel, the longest first; None without kernels.

    Args:
        trace: Kernel table of the call.
        note: Line below the picture.
    """
    if not trace.kernels:
        return None
    shown = trace.kernels[:MOST_KERNELS]
    rest = trace.kernels[MOST_KERNELS:]
    names = [
        f"{cut_middle(function_name(one.name), _NAME)}{f' ({one.calls})' if one.calls > 1 else ''}"
        for one in shown
    ]
    times = [one.total_us for one in shown]
    if rest:
        names.append(f"{len(rest)} other kernels")
        times.append(sum(one.total_us for one in rest))
    span = f" in {show_time(trace.span_us)}" if trace.span_us else ""
    return Picture(
        title="Time of each kernel of the call",
        description=f"{count(trace.launches, 'launch', 'launches')}{span}; "
        f"{names[0]} takes {show_time(times[0])}.",
        x=Axis(label="time of all launches (µs), their number in brackets", low=0.0),
        y=Axis(names=tuple(names)),
        marks=(Bars(to=rounded(times), tone="now"),),
        notes=(note,),
    )
