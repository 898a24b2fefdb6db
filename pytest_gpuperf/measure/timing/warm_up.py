"""Warm up until time and SM clock of the callable are steady."""

from __future__ import annotations

from math import hypot
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.records import WarmUp
from pytest_gpuperf.statistics.decision import standard_error, trimmed_mean
from pytest_gpuperf.statistics.thresholds import SCREEN_PCT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_gpuperf.measure.timing.batch import Batch, Block

LEAD_S = 0.02
"""Blocks that begin in these first seconds do not count, unless they fill a window: the first blocks after a
pause take longer, so the first window would differ from the second."""
WINDOW_S = 0.1
"""Minimum length of a window, in seconds. Clocks need tens of milliseconds of load before they move, and a
matrix product at the power limit drifts slowly, for a second: shorter windows do not see it."""
FEW_BLOCKS = 5
"""Blocks of a window from which the noise of the host's clock counts: that of fewer is not known. Blocks by
this clock spread by several percent, so windows of a steady call seldom agree within half a percent; two in
three pairs do so within one standard error of their difference. A drift below that is not waited for."""


class Warmed(NamedTuple):
    """Result of a warm-up."""

    warm_up: WarmUp
    steady: tuple[Block, ...]
    """Blocks of the last window, which are measurements as good as later ones; none if the time is not
    steady."""


def until_steady(
    batch: Batch, cap_s: float, clock: Callable[[], float] = originals.now, *, by_host: bool = False
) -> Warmed:
    """Run blocks until two consecutive windows agree, or until `cap_s` seconds have passed.

    A window is as many blocks as fill 0.1 s, so a warm-up takes at least twice that.

    Args:
        batch: The batch that is warmed up, and later measured.
        cap_s: Seconds after which to stop.
        clock: Seconds; replaced in tests.
        by_host: True if the host's clock times the blocks: then windows also agree within the standard error
            of their difference.
    """
    begin = opened = at = clock()
    launches = 0
    window: list[Block] = []
    last: tuple[Block, ...] = ()
    while True:
        began, block, at = at, batch.run(), clock()
        launches += batch.calls
        steady = False
        if began - begin < LEAD_S and at - began < WINDOW_S:
            opened = at
        else:
            window.append(block)
        if at - opened >= WINDOW_S:
            steady = bool(last) and _agree(window, last, by_host=by_host)
            last, window, opened = tuple(window), [], at
        if steady or at - begin >= cap_s:
            warm_up = WarmUp(seconds=round(at - begin, 3), launches=launches, steady=steady)
            return Warmed(warm_up, last if steady else ())


def _agree(now: Sequence[Block], before: Sequence[Block], *, by_host: bool) -> bool:
    times_us = [[block.time_us for block in window] for window in (now, before)]
    if by_host and min(map(len, times_us)) >= FEW_BLOCKS:
        # One late block is not the level of its window.
        return _near(map(trimmed_mean, times_us), hypot(*map(standard_error, times_us)))
    clocks_mhz = [[block.sm_clock_mhz for block in window] for window in (now, before)]
    return _near(map(fmean, times_us)) and _near(map(fmean, clocks_mhz))


def _near(levels: Iterable[float], noise: float = 0.0) -> bool:
    now, before = levels
    return abs(now - before) <= max(SCREEN_PCT / 100 * abs(before), noise)
