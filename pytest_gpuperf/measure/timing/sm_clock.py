"""The SM clock of a batch: measure it, warm up until it is steady, and change it on purpose.

NVML's clocks lag by tens of milliseconds. A kernel that stores `%globaltimer` (nanoseconds) and `%clock64`
(SM cycles) of each SM, before and after a batch, gives the mean SM clock of just that batch: a stamp.
Only a moving clock shows how the time of a batch depends on it.
"""

from __future__ import annotations

import time
from functools import cached_property
from math import hypot
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import torch

from pytest_gpuperf.measure.device import driver, originals
from pytest_gpuperf.measure.timing.graph import capture, replay_us
from pytest_gpuperf.records import WarmUp
from pytest_gpuperf.records.number_ranges import LEAST_MHZ, MOST_MHZ
from pytest_gpuperf.statistics.decision import standard_error, trimmed_mean
from pytest_gpuperf.statistics.thresholds import SCREEN_PCT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_gpuperf.measure.timing.batch import Batch, Block

_COST_REPLAYS = 21
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
BURN_S = 0.1
"""Seconds of matrix products at the power limit. From 0.05 on, they lower an H200's clock as far as 0.2 do,
to 1,500 to 1,600 MHz (commit be228aa, 2026-11-28); it stays low for 20 to 60 ms."""
REST_S = 0.2
"""Idle seconds, after which a clock that the batch has driven down is up again, for about 10 ms."""
SHIFTED_BLOCKS = 6
"""Blocks after a burn or a rest, before the clock has returned to its former value."""
_MATRIX_SIZE = 8192
_SHARE_OF_MEMORY = 8


class Stamps:
    """Two stamps around work on the current stream; they can be captured into a graph."""

    def __init__(self) -> None:
        device = torch.cuda.current_device()
        # Two blocks for each SM, so that none is left out if another gets two of them.
        blocks = 2 * torch.cuda.get_device_properties(device).multi_processor_count
        self._before = torch.zeros(blocks, 3, dtype=torch.int64, device=device)
        self._after = torch.zeros_like(self._before)
        self.before()
        self.after()
        originals.synchronize()

    def before(self) -> None:
        """Stamp the beginning."""
        _store(self._before)

    def after(self) -> None:
        """Stamp the end."""
        _store(self._after)

    @cached_property
    def cost_us(self) -> float:
        """Return the microseconds that two stamps add to a graph, by the same events that time it."""

        def both() -> None:
            self.before()
            self.after()

        graph = capture(both)
        return sorted(replay_us(graph) for _ in range(_COST_REPLAYS))[_COST_REPLAYS // 2]

    def sm_clock_mhz(self) -> float:
        """Return the mean SM clock between the two passed stamps: the median over SMs; 0 if impossible."""
        begins, ends = (
            {sm: (time_ns, cycles) for time_ns, cycles, sm in rows.tolist()}
            for rows in (self._before, self._after)
        )
        clocks = sorted(
            1e3 * (ends[sm][1] - cycles) / (ends[sm][0] - time_ns)
            for sm, (time_ns, cycles) in begins.items()
            if sm in ends and ends[sm][0] > time_ns
        )
        if not clocks:
            return 0.0
        clock = float(clocks[len(clocks) // 2])
        # A coarse timer makes no clock of a short block.
        return clock if LEAST_MHZ <= clock <= MOST_MHZ else 0.0


def _store(rows: torch.Tensor) -> None:
    driver.launch(driver.STAMP, rows.data_ptr(), originals.current_stream().cuda_stream, len(rows))


class WarmUpResult(NamedTuple):
    """Result of a warm-up."""

    warm_up: WarmUp
    steady: tuple[Block, ...]
    """Blocks of the last window, which are measurements as good as later ones; none if the time is not
    steady."""


def until_steady(
    batch: Batch, cap_s: float, clock: Callable[[], float] = originals.now, *, by_host: bool = False
) -> WarmUpResult:
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
            return WarmUpResult(warm_up, last if steady else ())


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


class Burn:
    """A matrix product that drives the GPU into its power limit."""

    def __init__(self) -> None:
        free, _ = torch.cuda.mem_get_info()
        size = _MATRIX_SIZE
        while 3 * 2 * size * size > free / _SHARE_OF_MEMORY and size > 1024:
            size //= 2
        # Zeros would draw less power; a separate generator leaves the user's seeds alone.
        generator = torch.Generator(device="cuda").manual_seed(0)
        self._input = torch.randn(size, size, device="cuda", generator=generator).to(torch.bfloat16)
        self._output = torch.empty_like(self._input)

    def __call__(self, seconds: float) -> None:
        """Burn for this long."""
        end = originals.now() + seconds
        while originals.now() < end:
            for _ in range(20):
                torch.mm(self._input, self._input, out=self._output)
            originals.synchronize()


def at_other_clocks(batch: Batch, burn: Burn, *, held_back: bool) -> list[Block]:
    """Run blocks of a batch while the SM clock is away from its steady value.

    The block right after a burn or a rest is dropped: the clock falls or climbs within it.

    Args:
        batch: The batch that was measured at the steady clock.
        burn: Drives the clock down.
        held_back: True if the batch itself has driven the clock down, so that a rest brings a higher one.
    """
    burn(BURN_S)
    blocks = _blocks(batch)
    if held_back:
        time.sleep(REST_S)
        blocks += _blocks(batch)
    return blocks


def _blocks(batch: Batch) -> list[Block]:
    batch.run()
    return [batch.run() for _ in range(SHIFTED_BLOCKS)]
