"""A picture as SVG, PNG or PDF by matplotlib. The same picture makes the same bytes."""

from __future__ import annotations

import io
import math
from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.page.picture import Band, Bars, Line, Points, Text
from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pytest_gpuperf.features.page.picture import Axis, Numbers, Picture

FORMATS = ("svg", "png", "pdf")
_COLOURS = {
    "now": "#1f62c4",
    "before": "#838a94",
    "second": "#b8560b",
    "third": "#7a4bb3",
    "good": "#1b7f4b",
    "bad": "#c22f3d",
    "quiet": "#5f6873",
}
"""Colour of each tone, as in `picture.css` on a light page."""
_MARKERS = "osD^vPX*<>"
"""Markers that distinguish lines without colours."""
_CHARACTERS = 70
"""Number of characters that fit along the x axis."""
_LEGEND_CHARACTERS = 95
"""Number of characters in a line of the legend."""
_WRITER = "pytest-gpuperf"
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": _WRITER},
    "pdf": {"CreationDate": None, "Creator": _WRITER, "Producer": None},
    "png": {"Software": _WRITER},
}
"""The writer, by which `own_files` knows a picture, and no date."""
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "gpuperf",
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a dollar sign in a test's name stays one
}


def draw(picture: Picture, form: str) -> bytes:
    """Draw a picture.

    Args:
        picture: The picture.
        form: One of `FORMATS`.

    Raises:
        GpuperfError: matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise GpuperfError(
            "a plot needs matplotlib, which is not installed",
            next_step='pip install "pytest-gpuperf[plot]"',
        ) from None
    content = io.BytesIO()
    rows = 0 if picture.y.ticks else len(picture.y.names)
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(8, 1.9 + 0.32 * rows if rows else 5), layout="constrained")
        axes = figure.add_subplot()
        right = axes.twinx() if picture.right else None
        axes.set_axisbelow(True)
        _draw_marks(picture, axes, right)
        _set_axis(axes, "x", picture.x)
        _set_axis(axes, "y", picture.y)
        if right is not None and picture.right is not None:
            _set_axis(right, "y", picture.right)
            right.grid(visible=False)
        _add_legend(figure, [one for one in (axes, right) if one is not None], printable(picture.title))
        if picture.notes:
            notes = "\n".join(map(printable, picture.notes))
            figure.supxlabel(notes, fontsize="x-small", color="0.35")
        _write_names_beside(picture, figure, axes)
        figure.savefig(content, format=form, dpi=150, metadata=_METADATA[form])
    return content.getvalue()


def _draw_marks(picture: Picture, axes: Any, right: Any) -> None:
    looks = _looks()
    side_by_side = [mark for mark in picture.marks if isinstance(mark, Bars) and not mark.start]
    for mark in picture.marks:
        # matplotlib leaves a label that begins with an underscore out of the legend.
        name = "" if isinstance(mark, Text) else printable(mark.name).lstrip("_")
        if isinstance(mark, Line):
            colour, marker, dash = (_COLOURS[mark.tone], "o", "-") if mark.tone else next(looks)
            (right if mark.right else axes).plot(
                mark.x or _counted(mark.y),
                mark.y,
                color=colour,
                marker=marker if mark.dots else "",
                markersize=5,
                linestyle="--" if mark.dashed else dash,
                label="" if mark.beside else name,
            )
        elif isinstance(mark, Points):
            colour, marker, _ = (_COLOURS[mark.tone], "o", "") if mark.tone else next(looks)
            _draw_points(axes, mark, colour, marker, name)
        elif isinstance(mark, Bars):
            colour = _COLOURS[mark.tone] if mark.tone else next(looks)[0]
            order, shares = (side_by_side.index(mark), len(side_by_side)) if not mark.start else (0, 1)
            height = 0.76 / shares
            start = mark.start or (0.0,) * len(mark.to)
            axes.barh(
                [row + (order - (shares - 1) / 2) * height for row in mark.rows or range(len(mark.to))],
                [to - left for to, left in zip(mark.to, start, strict=True)],
                left=start,
                height=height,
                color=colour,
                linewidth=0.4,
                edgecolor=colour,  # the shortest launch is seen
                label=name,
            )
        elif isinstance(mark, Band):
            span = axes.axvspan if mark.along == "x" else axes.axhspan
            span(mark.low, mark.high, color=_COLOURS[mark.tone or "quiet"], alpha=0.16, lw=0, label=name)
        else:
            side = "right" if mark.end else "left"
            axes.text(mark.x, mark.y, printable(mark.text), ha=side, fontsize="small", clip_on=True)


def _looks() -> Iterator[tuple[str, str, str]]:
    """Yield colour, marker and line style of marks without a tone."""
    markers = cycle(_MARKERS)
    for dash in cycle(("-", "--")):  # matplotlib has ten colours, so the next ten lines are dashed
        for colour in range(10):
            yield f"C{colour}", next(markers), dash


def _counted(values: Numbers) -> range:
    return range(1, len(values) + 1)


def _draw_points(axes: Any, mark: Points, colour: str, marker: str, name: str) -> None:
    places = mark.x or _counted(mark.y)
    if mark.low:
        axes.vlines(places, mark.low, mark.high, color=colour, lw=1.5)
    dots = axes.scatter(
        places,
        mark.y,
        s=36,
        marker=marker,
        facecolor="white" if mark.hollow else colour,
        edgecolor=colour,
        label=name,
        zorder=3,
    )
    if mark.links:
        dots.set_urls([link or None for link in mark.links])


def _set_axis(axes: Any, letter: str, axis: Axis) -> None:
    own = axes.xaxis if letter == "x" else axes.yaxis
    set_limits = axes.set_xlim if letter == "x" else axes.set_ylim
    if axis.log:
        (axes.set_xscale if letter == "x" else axes.set_yscale)("log")
        # matplotlib's own labels of a logarithmic axis are formulas.
        own.set_major_formatter(_plain)
        own.set_minor_formatter(_no_text)
    elif axis.ticks == () and axis.names == ():
        axes.ticklabel_format(axis=letter, style="plain", useOffset=False)
    names = [printable(name) for name in axis.names]
    if names and not axis.ticks:
        own.set_ticks(range(len(names)), names)
        set_limits(len(names) - 0.5, -0.5)
        own.grid(visible=False)
    else:
        if axis.ticks:
            own.set_ticks(axis.ticks, names or [f"{tick:g}" for tick in axis.ticks])
            own.set_ticks([], minor=True)
            if letter == "x":
                _slant(axes, [math.log(tick) if axis.log else tick for tick in axis.ticks], names)
        own.grid(visible=True, alpha=0.3)
    if axis.low is not None or axis.high is not None:
        set_limits(axis.low, axis.high)
    if axis.log and not axis.ticks:
        own.set_major_locator(_ticks_of_decades(*(axes.get_xlim() if letter == "x" else axes.get_ylim())))
    own.set_label_text(printable(axis.label))


def _ticks_of_decades(low: float, high: float) -> Any:
    """Return a locator with ticks at 1, 2 and 5 if there are few decades."""
    from matplotlib.ticker import LogLocator

    return LogLocator(subs=(1.0, 2.0, 5.0) if low > 0 and high < 1e3 * low else (1.0,))


def _slant(axes: Any, places: Sequence[float], texts: Collection[str]) -> None:
    """Turn the names of ticks if two neighbours are closer than the longest name is wide."""
    gaps = [after - before for before, after in pairwise(places)]
    if gaps and texts and min(gaps) / (places[-1] - places[0]) < max(map(len, texts)) / _CHARACTERS:
        axes.tick_params("x", rotation=30)
        for text in axes.get_xticklabels():
            text.set_horizontalalignment("right")


def _plain(value: float, _: int) -> str:
    return f"{value:g}"


def _no_text(_: float, __: int) -> str:
    return ""


def _add_legend(figure: Any, all_axes: Sequence[Any], title: str) -> None:
    entries = [entry for axes in all_axes for entry in zip(*axes.get_legend_handles_labels(), strict=True)]
    if not entries:
        figure.suptitle(title)
        return
    longest = max(len(name) for _, name in entries) + 8
    # A title of the figure would lie on the legend.
    figure.legend(
        *zip(*entries, strict=True),
        loc="outside upper center",
        ncols=max(1, min(len(entries), _LEGEND_CHARACTERS // longest)),
        fontsize="small",
        frameon=False,
        title=title,
        title_fontsize="large",
    )


def _write_names_beside(picture: Picture, figure: Any, axes: Any) -> None:
    """Write names along their lines: at the end of a level line, at the start of a slope."""
    lines = [mark for mark in picture.marks if isinstance(mark, Line) and mark.beside]
    if not lines:
        return
    figure.draw_without_rendering()  # gives the axes their final place
    box = axes.get_window_extent()
    for mark in lines:
        (x0, y0), (x1, y1) = axes.transData.transform(
            [(mark.x[0], mark.y[0]), (mark.x[-1], mark.y[-1])],
        )
        slope = (y1 - y0) / (x1 - x0)
        level = abs(slope) < 0.02
        entry = max(x0, box.x0, x0 + (box.y0 - y0) / slope if slope > 0 else x0) + 12
        at = min(x1, box.x1) - 6 if level else entry
        axes.annotate(
            printable(mark.name),
            axes.transAxes.inverted().transform((at, y0 + slope * (at - x0))),
            xycoords="axes fraction",
            xytext=(0, 2),
            textcoords="offset points",
            ha="right" if level else "left",
            va="bottom",
            rotation=0 if level else math.degrees(math.atan(slope)),
            rotation_mode="anchor",
            fontsize="x-small",
            color=_COLOURS[mark.tone or "quiet"],
        ).set_in_layout(False)
