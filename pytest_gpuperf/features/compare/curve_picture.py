"""Picture of a metric over a parameter of tests, with a line for each family of tests."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_gpuperf.features.page.picture import Axis, Picture, Polyline
from pytest_gpuperf.records.run import is_raw_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.compare.curves import Curves
    from pytest_gpuperf.records import GpuInfo

LOGARITHMIC_FROM = 8.0
"""The x axis is logarithmic if the largest size is at least this many times the smallest."""
TICKS = 12
"""Largest number of sizes with a label."""
_WORDS = {"us": "µs", "byte": "bytes", "op": "operations", "inst": "instructions", "cycle": "cycles"}
_RATES = {"gb_per_s": "GB/s", "tflop_per_s": "TFLOP/s", "time_us": "time (µs)", "dram_gb_per_s": "DRAM, GB/s"}


def picture_of_curves(
    curves: Curves, *, gpus: Sequence[GpuInfo], title: str, source: Sequence[str]
) -> Picture:
    """Make a picture with a line for each curve, and one for the peak of DRAM if the metric is a rate of it.

    Args:
        curves: The curves.
        gpus: The GPUs that measured; if all have the same peak, it is drawn.
        title: Title above the picture.
        source: Lines below the picture: the sources of the values.
    """
    parameters = {point.x: point.parameter for curve in curves.curves for point in curve.points}
    sizes = sorted(parameters)
    shown = sizes[:: math.ceil(len(sizes) / TICKS)]
    x = Axis(
        label=curves.x_title,
        log=sizes[-1] >= LOGARITHMIC_FROM * sizes[0] > 0,
        ticks=tuple(shown),
        names=tuple(parameters[size] for size in shown),
    )
    label = axis_label(curves.metric, curves.unit)
    peaks = {gpu.dram_gb_per_s for gpu in gpus} if curves.metric == "gb_per_s" else set()
    roofs = [_roof(peak, sizes) for peak in peaks if peak] if len(peaks) == 1 else []
    lines = tuple(
        Polyline(
            x=tuple(point.x for point in curve.points),
            y=tuple(point.y for point in curve.points),
            name=curve.name,
            dots=True,
        )
        for curve in curves.curves
    )
    return Picture(
        title=title,
        description=f"{label} over {curves.x_title}: {len(lines)} lines, {len(sizes)} sizes.",
        x=x,
        y=Axis(label=label, low=0.0),
        marks=(*roofs, *lines),
        notes=tuple(source),
    )


def _roof(peak: float, sizes: Sequence[float]) -> Polyline:
    name = f"peak of DRAM, {peak:.0f} GB/s"
    return Polyline(
        x=(sizes[0], sizes[-1]), y=(peak, peak), name=name, beside=True, tone="quiet", dashed=True
    )


def axis_label(metric: str, unit: str) -> str:
    """Return the title of an axis in words: `GB/s`, `time (µs)`, `achieved occupancy (%)`."""
    if metric in _RATES:
        return _RATES[metric]
    words = metric if is_raw_name(metric) else metric.removesuffix(f"_{unit}").replace("_", " ")
    shown = _WORDS.get(unit, unit)
    return f"{words} ({shown})" if shown and shown != words.rpartition(" ")[2] else words
