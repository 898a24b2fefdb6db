"""Launches of a call on a time line, from its trace."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.page.picture import Axis, Bars, Picture
from pytest_gpuperf.features.trace.categories import category_of
from pytest_gpuperf.features.trace.chrome import read_chrome_trace
from pytest_gpuperf.features.trace.summary import median_region
from pytest_gpuperf.measure.ncu.kernel_name import function_name
from pytest_gpuperf.report.forms.as_text import cut_middle
from pytest_gpuperf.report.show import count, show_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.trace.chrome import Activity
    from pytest_gpuperf.records import Trace

_CLOSE = 1 / 400
"""Gap between two launches, as a share of the span, that is about a pixel: they are drawn as one."""
_NAME = 28
"""Number of characters of a kernel's name."""
_UNITS = (("µs", 1.0), ("ms", 1e3), ("s", 1e6))
"""Units of a time line and their microseconds."""


def launches(trace: Trace, folder: Path | None) -> Picture | None:
    """Draw each launch of a call on a time line with a row for each stream.

    Args:
        trace: Kernel table of the call.
        folder: Folder of the run, which has the trace; None if only the kernel table is known.

    Returns:
        None if there is no trace, or if it cannot be read.
    """
    # A run file may come from anywhere: its trace lies in the folder of the run.
    name = PurePosixPath(trace.file)
    if folder is None or not trace.file or name.is_absolute() or ".." in name.parts:
        return None
    if not (folder / name).is_file():
        return None
    try:
        region, _ = median_region(read_chrome_trace(folder / name), trace.device)
    except GpuperfError:
        return None
    return timeline(region.activities, trace)


class _Bar(NamedTuple):
    """One launch, or several on one stream that are too close to tell apart; times in microseconds."""

    stream: int | str
    kind: str
    start: float
    end: float
    name: str
    """Kernel of the first launch."""
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
    kinds: dict[str, list[_Bar]] = defaultdict(list)
    for bar in (bars := _bars(activities, span * _CLOSE)):
        kinds[bar.kind].append(bar)
    marks = tuple(
        Bars(
            start=tuple((bar.start - first) / scale for bar in own),
            to=tuple((bar.end - first) / scale for bar in own),
            rows=tuple(streams.index(bar.stream) for bar in own),
            name=kind,
            tips=tuple(map(_tip, own)),
        )
        for kind, own in sorted(kinds.items(), key=lambda item: sum(bar.start - bar.end for bar in item[1]))
    )
    busy = f", the GPU is busy {trace.gpu_busy_pct:.0f} % of the call" if trace.gpu_busy_pct else ""
    joined = f"Launches with gaps below {show_time(span * _CLOSE)} are one bar."
    return Picture(
        title="Launches on a time line",
        description=f"{count(len(activities), 'launch', 'launches')} in {show_time(span)}{busy}.",
        x=Axis(label=f"time ({unit}), under the profiler", low=0.0, high=span / scale),
        y=Axis(names=tuple(f"stream {stream}" for stream in streams)),
        marks=marks,
        notes=(joined,) if len(bars) < len(activities) else (),
    )


def _bars(activities: Sequence[Activity], close_us: float) -> list[_Bar]:
    """Join launches of a stream that follow closely and are of one kind, or that all lie within that time."""
    bars: list[_Bar] = []
    last: dict[int | str, int] = {}
    for one in activities:
        category = category_of(one.name) if one.kind == "kernel" else "data_movement"
        kind = "GEMM" if category == "gemm" else category.replace("_", " ")
        bar = _Bar(one.stream, kind, one.start_us, one.end_us, one.name)
        at = last.setdefault(one.stream, len(bars))
        before = bars[at] if at < len(bars) else bar
        near = bar.start - before.end < close_us
        if before is not bar and near and (kind == before.kind or bar.end - before.start < close_us):
            end = max(before.end, bar.end)
            bars[at] = before._replace(end=end, launched=before.launched + 1)
        else:
            last[one.stream] = len(bars)
            bars.append(bar)
    return bars


def _tip(bar: _Bar) -> str:
    more = f" and {bar.launched - 1} more" if bar.launched > 1 else ""
    return f"{cut_middle(function_name(bar.name), _NAME)}{more}, {show_time(bar.end - bar.start)}"
