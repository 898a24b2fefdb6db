"""Warm up until time and SM clock of the callable are steady."""

from __future__ import annotations

from math import hypot
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.measure.device import kept
from pytest_gpuperf.records import WarmUp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.measure.timing.batch import Batch, Block

LEAD_S = 0.02
"""Seconds whose blocks do not count: the first blocks after a pause take longer, so the first window would
differ from the second."""
WINDOW_S = 0.1
"""Minimum length of a window, in seconds. Clocks need tens of milliseconds of load before they move, and a
matrix product at the power limit drifts slowly, for a second: shorter windows do not see it."""
STEADY_PCT = 0.5
"""Allowed difference of the means of two consecutive windows, in percent: of the time, and of the SM
clock."""
NOISE = 1
"""Standard errors up to which the means of two windows by the host's clock agree, too: their blocks spread by
several percent, so means of steady calls seldom agree within half a percent. Two in three pairs do so within
one."""


class Warmed(NamedTuple):
    """Result of a warm-up."""

    warm_up: WarmUp
    steady: tuple[Block, ...]
    """Blocks of the last window, which are measurements as good as later ones; none if the time is not
    steady."""


def until_steady(
    batch: Batch, cap_s: float, clock: Callable[[], float] = kept.now, *, by_host: bool = False
) -> Warmed:
    """Run blocks until two consecutive windows agree, or until `cap_s` seconds have passed.

    A window is as many blocks as fill 0.1 s, so a warm-up takes at least twice that, after its first 0.02 s.

    Args:
        batch: The batch that is warmed up, and later measured.
        cap_s: Seconds after which to stop.
        clock: Seconds; replaced in tests.
        by_host: True if the host's clock times the blocks: then windows also agree within their noise.
    """
    begin = opened = clock()
    launches = 0
    window: list[Block] = []
    last: tuple[Block, ...] = ()
    while True:
        window.append(batch.run())
        launches += batch.calls
        at = clock()
        steady = False
        if at - begin < LEAD_S:
            window, opened = [], at
        elif at - opened >= WINDOW_S:
            steady = bool(last) and _agree(window, last, by_host=by_host)
            last, window, opened = tuple(window), [], at
        if steady or at - begin >= cap_s:
            warm_up = WarmUp(seconds=round(at - begin, 3), launches=launches, steady=steady)
            return Warmed(warm_up, last if steady else ())


def _agree(now: Sequence[Block], before: Sequence[Block], *, by_host: bool) -> bool:
    times_us, clocks_mhz = zip(*map(_means, (now, before)), strict=True)
    noise_us = NOISE * hypot(_error(now), _error(before)) if by_host else 0.0
    return _near(times_us, noise_us) and _near(clocks_mhz)


def _means(window: Sequence[Block]) -> tuple[float, float]:
    return fmean(block.time_us for block in window), fmean(block.sm_clock_mhz for block in window)


def _error(window: Sequence[Block]) -> float:
    """Return the standard error of the mean time in microseconds; 0 for one block."""
    return stdev(block.time_us for block in window) / len(window) ** 0.5 if len(window) > 1 else 0.0


def _near(means: Sequence[float], noise: float = 0.0) -> bool:
    now, before = means
    return abs(now - before) <= max(STEADY_PCT / 100 * abs(before), noise)
