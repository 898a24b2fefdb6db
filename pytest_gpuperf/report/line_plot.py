"""Curves as a picture from matplotlib. The same curves make the same bytes."""

from __future__ import annotations

import io
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.change import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_gpuperf.compare.curves import Curves

FORMATS = ("svg", "png", "pdf")
MARKERS = "osD^vPX*<>"
"""Markers that distinguish lines without colours."""
LOGARITHMIC_FROM = 8.0
"""The x axis is logarithmic if the largest size is at least this many times the smallest."""
CHARACTERS = 70
"""Number of characters that fit along the x axis."""
TICKS = 12
"""Up to this many sizes all have a label."""
_NO_DATE: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "gpuperf",
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a dollar sign in a test's name stays one
}


def draw(curves: Curves, form: str, *, title: str, source: Sequence[str], log_y: bool = False) -> bytes:
    """Draw a picture with a line for each curve.

    Args:
        curves: The curves.
        form: One of `FORMATS`.
        title: Title above the picture.
        source: Lines below the picture: the sources of the values.
        log_y: True if the y axis is logarithmic; otherwise it begins at 0.

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
    picture = io.BytesIO()
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(8, 5), layout="constrained")
        axes = figure.add_subplot()
        for index, curve in enumerate(curves.curves):
            axes.plot(
                [point.x for point in curve.points],
                [point.y for point in curve.points],
                marker=MARKERS[index % len(MARKERS)],
                # Ten colours, so the next ten lines are dashed.
                linestyle="-" if index < 10 else "--",
                # matplotlib leaves a label that begins with an underscore out of the legend.
                label=printable(curve.name).lstrip("_"),
            )
        _name_axes(axes, curves, log_y)
        axes.set_title(printable(title))
        axes.grid(visible=True, alpha=0.3)
        if any(curve.name for curve in curves.curves):
            axes.legend(fontsize="small")
        figure.supxlabel("\n".join(map(printable, source)), fontsize="x-small", color="0.4")
        figure.savefig(picture, format=form, dpi=150, metadata=_NO_DATE[form])
    return picture.getvalue()


def _name_axes(axes: Any, curves: Curves, log_y: bool) -> None:
    parameters = {point.x: point.parameter for curve in curves.curves for point in curve.points}
    sizes = sorted(parameters)
    logarithmic = sizes[-1] >= LOGARITHMIC_FROM * sizes[0] > 0
    if logarithmic:
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
    if len(sizes) <= TICKS:
        slanted = _collide([math.log(size) if logarithmic else size for size in sizes], parameters.values())
        axes.set_xticks(sizes, [printable(parameters[size]) for size in sizes])
        axes.tick_params("x", rotation=30 if slanted else 0)
        for text in axes.get_xticklabels():
            text.set_horizontalalignment("right" if slanted else "center")
    else:
        axes.xaxis.set_major_formatter(_plain)
    axes.set_xlabel(printable(curves.x_title))
    unit = "µs" if curves.unit == "us" else curves.unit
    axes.set_ylabel(printable(f"{curves.metric} ({unit})" if unit else curves.metric))
    if log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(_plain)
    else:
        axes.set_ylim(bottom=0)


def _plain(value: float, _: int) -> str:
    # matplotlib's own labels of a logarithmic axis are formulas.
    return f"{value:g}"


def _collide(places: Sequence[float], texts: Collection[str]) -> bool:
    """Return True if two neighbours are closer than the longest text is wide."""
    gaps = [after - before for before, after in pairwise(places)]
    return bool(gaps) and min(gaps) / (places[-1] - places[0]) < max(map(len, texts)) / CHARACTERS
