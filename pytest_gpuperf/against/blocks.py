"""Blocks of one call in one restart: of both sides and their ratio, or of one side."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import count
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

from pytest_gpuperf.statistics.decision import standard_error, trimmed_mean
from pytest_gpuperf.statistics.thresholds import ALIKE_PCT, SURE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from pytest_gpuperf.statistics.sequential import Side

Quad: TypeAlias = "tuple[Side, Side, Side, Side]"
QUADS: tuple[Quad, Quad] = (("A", "B", "B", "A"), ("B", "A", "A", "B"))
"""The sides of four blocks in a row: a linear drift cancels in either."""
LEAST_QUADS = 3
WARM_UP_S = 0.1
"""Seconds of the warm-up of both sides. Clocks need tens of milliseconds of load before they move; a longer
drift is the same for both sides of a quad."""
ENOUGH_QUADS = 5
"""Quads before the first check of their precision."""
MOST_QUADS = 64
ALONE = 10
"""Minimum number of blocks of a side by itself."""


@dataclass(frozen=True)
class SideBlock:
    """One block of one side."""

    side: Side
    time_us: float
    """Microseconds per call."""
    sm_clock_mhz: float
    """Mean SM clock, in MHz; 0 if unknown."""


def quad_order(rng: Random, quads: int) -> list[Quad]:
    """Return the orders of a restart's quads: half of each kind (give or take one), shuffled.

    Args:
        rng: Source of the order.
        quads: Number of quads.
    """
    kinds = rng.sample(QUADS, 2)
    return rng.sample([kinds[at % 2] for at in range(quads)], quads)


def warm_up(block: Callable[[Side], SideBlock], budget_s: float) -> None:
    """Run blocks of both sides, so that neither finds a colder GPU than the other.

    Args:
        block: Runs a block of a side.
        budget_s: Seconds for the blocks that follow; the warm-up takes no longer. Each side runs twice in any
            case.
    """
    begin = time.monotonic()
    for turns in count(1):
        block("A")
        block("B")
        if turns > 1 and time.monotonic() - begin >= min(WARM_UP_S, budget_s):
            return


def in_turn(block: Callable[[Side], SideBlock], rng: Random, budget_s: float) -> tuple[SideBlock, ...]:
    """Run blocks in quads until their ratio is precise or the time is up.

    Args:
        block: Runs a block of a side.
        rng: Chooses the order.
        budget_s: Seconds for all blocks; `LEAST_QUADS` run in any case.
    """
    begin = time.monotonic()
    blocks: list[SideBlock] = []
    before: Side | None = None
    for quads, quad in enumerate(quad_order(rng, MOST_QUADS), 1):
        for side in quad:
            if side != before:
                # The first block finds the caches and clocks of the other side.
                block(side)
            blocks.append(block(side))
            before = side
        spent = time.monotonic() - begin >= budget_s
        if (spent and quads >= LEAST_QUADS) or (quads >= ENOUGH_QUADS and is_precise(blocks)):
            break
    return tuple(blocks)


def alone(block: Callable[[], SideBlock], budget_s: float) -> tuple[SideBlock, ...]:
    """Run blocks of one side until the time is up; the first ones warm it up.

    Args:
        block: Runs a block.
        budget_s: Seconds for all blocks; `ALONE` run in any case, and at most `MOST_QUADS` times 4.
    """
    begin = time.monotonic()
    while True:
        block()
        if time.monotonic() - begin >= min(WARM_UP_S, budget_s):
            break
    blocks: list[SideBlock] = []
    while len(blocks) < ALONE or (time.monotonic() - begin < budget_s and len(blocks) < 4 * MOST_QUADS):
        blocks.append(block())
    return tuple(blocks)


def with_times(blocks: Sequence[SideBlock]) -> tuple[SideBlock, ...]:
    """Return the quads in which each block has a time above 0; none unless they are more than half.

    A cold time may be lost in the noise of its flushes, and CUPTI may miss a block.
    """
    quads = [blocks[at : at + 4] for at in range(0, len(blocks), 4)]
    kept = [quad for quad in quads if all(block.time_us > 0 for block in quad)]
    return tuple(block for quad in kept for block in quad) if 2 * len(kept) > len(quads) else ()


def at_one_clock(blocks: Sequence[SideBlock], logs: Sequence[float]) -> list[float]:
    """Correct logarithms of the times to the mean SM clock of all blocks.

    An analysis of covariance, with the side as the factor (R. A. Fisher, Statistical Methods for Research
    Workers, 4th ed. 1932, section 49.1). The slope of time against clock is estimated within each side, as
    the code is the same there: the time of work bound by the SMs follows `clock ** -1`, the time of work
    bound by memory does not change. If the slope cannot be told from 0, or the clock is unknown, the times
    stay as measured.
    """
    if not all(block.sm_clock_mhz for block in blocks):
        return list(logs)
    clocks = [math.log(block.sm_clock_mhz) for block in blocks]
    clock_squares = products = log_squares = 0.0
    for side in ("A", "B"):
        own = [at for at, block in enumerate(blocks) if block.side == side]
        clock, log = (fmean(values[at] for at in own) for values in (clocks, logs))
        clock_squares += sum((clocks[at] - clock) ** 2 for at in own)
        products += sum((clocks[at] - clock) * (logs[at] - log) for at in own)
        log_squares += sum((logs[at] - log) ** 2 for at in own)
    if not clock_squares:
        return list(logs)
    slope = products / clock_squares
    residual = max(0.0, log_squares - slope * products) / (len(blocks) - 3)
    if -slope < SURE * math.sqrt(residual / clock_squares):
        return list(logs)
    share, mean = min(1.0, -slope), fmean(clocks)
    return [log + share * (clock - mean) for log, clock in zip(logs, clocks, strict=True)]


def ratio(blocks: Sequence[SideBlock], logs: Sequence[float]) -> float:
    """Return the natural logarithm of new over old time in one restart, from logarithms of the blocks' times.

    It is the 20 % trimmed mean over the quads, so that an occasional disturbed block does not count.
    """
    return trimmed_mean(_of_quads(blocks, logs))


def is_precise(blocks: Sequence[SideBlock]) -> bool:
    """Return True if more quads would not help: restarts differ by three times this ratio's error or more."""
    if not (blocks := with_times(blocks)):
        return False
    logs = at_one_clock(blocks, [math.log(block.time_us) for block in blocks])
    return ratio_error(blocks, logs) <= ALIKE_PCT / 300


def ratio_error(blocks: Sequence[SideBlock], logs: Sequence[float]) -> float:
    """Return the standard error of a restart's ratio by the spread of its quads."""
    return standard_error(_of_quads(blocks, logs))


def _of_quads(blocks: Sequence[SideBlock], logs: Sequence[float]) -> list[float]:
    """Return the ratio of each quad."""
    signed = [log if block.side == "B" else -log for block, log in zip(blocks, logs, strict=True)]
    return [sum(signed[at : at + 4]) / 2 for at in range(0, len(signed), 4)]
