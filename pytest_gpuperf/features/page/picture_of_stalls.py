"""Picture of the reasons why warps wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.features.page.picture import Axis, Bars, Picture
from pytest_gpuperf.metrics import METRICS
from pytest_gpuperf.report.show import number_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.records import MetricValue

MOST_STALLS = 8
LEAST_STALL = 1.0
"""Share of all warp cycles, in %, below which a reason is left out."""
_COMMON = "share of all warp cycles spent "


def stalls(now: Mapping[str, MetricValue], before: Mapping[str, MetricValue]) -> Picture | None:
    """Draw the reasons for which warps wait, now and before.

    Args:
        now: Counters by short name.
        before: Counters of the baseline, read in the same way; empty without any.

    Returns:
        None if no reason was measured.
    """
    shares = {
        name: (number_in(now, name) or 0.0, number_in(before, name) or 0.0)
        for name in now
        if name.startswith("stall.") and name in METRICS
    }
    large = [name for name, pair in shares.items() if max(pair) >= LEAST_STALL]
    names = sorted(large, key=lambda name: max(shares[name]), reverse=True)[:MOST_STALLS]
    if not names:
        return None
    top = max(names, key=lambda name: shares[name][0])
    tips = [f"{shares[name][0]:.1f} %: {METRICS[name].explanation.removeprefix(_COMMON)}" for name in names]
    rows = tuple(range(len(names)))
    compared = any(shares[name][1] for name in names)
    new = Bars(
        to=tuple(shares[name][0] for name in names),
        rows=rows,
        name="this run" if compared else "",
        tone="now",
        tips=tuple(tips),
    )
    marks = [new]
    if compared:
        old = Bars(to=tuple(shares[name][1] for name in names), rows=rows, name="before", tone="before")
        marks.append(old)
    return Picture(
        title="Reasons why warps wait",
        description=f"The first is {_words(top)} with {shares[top][0]:.0f} % of all warp cycles.",
        x=Axis(label="share of all warp cycles (%)", low=0.0),
        y=Axis(names=tuple(map(_words, names))),
        marks=tuple(marks),
    )


def _words(name: str) -> str:
    return name.partition(".")[2].replace("_", " ")
