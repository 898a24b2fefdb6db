"""Warm-up until the time of the callable at hand stops moving."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_gpuperf.records import WarmUp

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.timing.batch import Batch

WINDOW = 5
"""Blocks that must agree before the time counts as steady."""
STEADY_PCT = 0.5
"""By how much the means of two windows in a row may differ, in per cent."""
LEAST_SECONDS = 0.1
"""Clocks need tens of milliseconds of load before they move."""


def until_steady(batch: Batch, cap_s: float, clock: Callable[[], float] = time.perf_counter) -> WarmUp:
    """Run blocks until two windows of them in a row agree, or until `cap_s` seconds have passed.

    Args:
        batch: What is warmed up, and later measured.
        cap_s: When to give up, in seconds.
        clock: Seconds; replaced in tests.
    """
    begin = clock()
    blocks: list[float] = []
    while True:
        blocks.append(batch.run())
        elapsed = clock() - begin
        if len(blocks) >= 2 * WINDOW and elapsed >= LEAST_SECONDS:
            before = sum(blocks[-2 * WINDOW : -WINDOW]) / WINDOW
            now = sum(blocks[-WINDOW:]) / WINDOW
            if abs(now - before) <= STEADY_PCT / 100 * before:
                return WarmUp(seconds=round(elapsed, 3), launches=len(blocks) * batch.calls, steady=True)
        if elapsed >= cap_s:
            return WarmUp(seconds=round(elapsed, 3), launches=len(blocks) * batch.calls, steady=False)
