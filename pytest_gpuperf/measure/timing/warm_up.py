"""Warm up until time and SM clock of the callable are steady."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.measure.device import kept
from pytest_gpuperf.records import WarmUp

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.measure.timing.batch import Batch, Block

WINDOW_S = 0.1
"""Minimum length of a window, in seconds. Clocks need tens of milliseconds of load before they move, and a
matrix product at the power limit drifts slowly, for a second: shorter windows do not see it."""
STEADY_PCT = 0.5
"""Allowed difference of the means of two consecutive windows, in percent: of the time, and of the SM
clock."""


class Warmed(NamedTuple):
    """Result of a warm-up."""

    warm_up: WarmUp
    steady: tuple[Block, ...]
    """Blocks of the last window, which are measurements as good as later ones; none if the time is not
    steady."""


def until_steady(batch: Batch, cap_s: float, clock: Callable[[], float] = kept.now) -> Warmed:
    """Run blocks until two consecutive windows agree, or until `cap_s` seconds have passed.

    A window is as many blocks as fill 0.1 s, so a warm-up takes at least twice that.

    Args:
        batch: The batch that is warmed up, and later measured.
        cap_s: Seconds after which to stop.
        clock: Seconds; replaced in tests.
    """
    begin = opened = clock()
    launches = 0
    before: tuple[float, float] | None = None
    window: list[Block] = []
    last: tuple[Block, ...] = ()
    while True:
        window.append(batch.run())
        launches += batch.calls
        at = clock()
        steady = False
        if at - opened >= WINDOW_S:
            now = _means(window)
            steady = before is not None and all(map(_agree, now, before))
            before, last, window, opened = now, tuple(window), [], at
        if steady or at - begin >= cap_s:
            warm_up = WarmUp(seconds=round(at - begin, 3), launches=launches, steady=steady)
            return Warmed(warm_up, last if steady else ())


def _means(window: list[Block]) -> tuple[float, float]:
    return (
        sum(block.time_us for block in window) / len(window),
        sum(block.sm_clock_mhz for block in window) / len(window),
    )


def _agree(now: float, before: float) -> bool:
    return abs(now - before) <= STEADY_PCT / 100 * abs(before)
