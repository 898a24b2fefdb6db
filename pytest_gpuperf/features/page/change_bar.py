"""A change with its interval as a bar: left of the middle is faster, right of it slower."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.statistics.decision import Decision

WIDTH, HEIGHT = 108, 16
"""Of the bar, in pixels."""
EDGE = 8
"""Room on either side for the arrow of a bound that lies outside."""
ENDS_PCT = (1, 2, 5, 10)
"""Changes at the ends of a scale, in %."""
INSIDE = 0.75
"""Share of the changes that a scale has to hold; the others end in an arrow."""
CALLED = (Outcome.REGRESSED, Outcome.IMPROVED)


def scale_of(decisions: Sequence[Decision]) -> int:
    """Return the change at the ends of the scale that all bars of a table share, in %.

    It holds most changes with their intervals, and all that are called regressed or improved.
    """
    bounds = sorted(max(abs(one.low_pct), abs(one.high_pct)) for one in decisions)
    if not bounds:
        return ENDS_PCT[0]
    called = [abs(one.change_pct) for one in decisions if one.outcome in CALLED]
    wanted = max(bounds[math.ceil(INSIDE * len(bounds)) - 1], *called, 0.0)
    return next((end for end in ENDS_PCT if end >= wanted), ENDS_PCT[-1])


def change_bar(decision: Decision, end_pct: int) -> str:
    """Return the bar as SVG; the text next to it says the same to those who do not see it.

    Args:
        decision: The change and its interval.
        end_pct: The change at the ends of the scale, in %.
    """
    middle, y = WIDTH / 2, HEIGHT / 2
    low, value, high = (
        _place(pct, end_pct) for pct in (decision.low_pct, decision.change_pct, decision.high_pct)
    )
    parts = [
        f'<path class="axis" d="M{EDGE} {y:g}H{WIDTH - EDGE}M{middle:g} 1V{HEIGHT - 1}"/>',
        f'<rect class="range" x="{low:.1f}" y="{y - 3:g}" width="{max(high - low, 1):.1f}" height="6"/>',
    ]
    if decision.low_pct < -end_pct:
        parts.append(f'<path class="dot" d="M{EDGE - 1} 3L1 {y:g}L{EDGE - 1} {HEIGHT - 3}z"/>')
    if decision.high_pct > end_pct:
        x = WIDTH - EDGE + 1
        parts.append(f'<path class="dot" d="M{x} 3L{WIDTH - 1} {y:g}L{x} {HEIGHT - 3}z"/>')
    if abs(decision.change_pct) <= end_pct:
        parts.append(f'<circle class="dot" cx="{value:.1f}" cy="{y:g}" r="3.5"/>')
    return (
        f'<svg class="bar" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'aria-hidden="true">{"".join(parts)}</svg>'
    )


def _place(pct: float, end_pct: int) -> float:
    """Return the place of a change, in pixels from the left; that of the end if it lies outside."""
    share = max(-1.0, min(1.0, pct / end_pct)) if math.isfinite(pct) else 0.0
    return WIDTH / 2 + share * (WIDTH / 2 - EDGE)
