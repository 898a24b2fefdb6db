"""Blocks of both sides of one call in one restart, and what they say together."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from pytest_gpuperf.statistics.sequential import Side, quad_order, restart_log_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from pytest_gpuperf.statistics.sequential import Quad

LEAST_QUADS = 3
ENOUGH_QUADS = 5
"""Before they are asked how precise they are."""
MOST_QUADS = 64
PRECISE_PCT = 0.03
"""Standard error of a restart's ratio, in per cent, below which more blocks tell nothing: restarts differ by
more."""
SURE = 3.0
"""Standard errors by which a time has to go with the clock before it is corrected for it."""


@dataclass(frozen=True)
class PairedBlock:
    """One block of one side."""

    side: Side
    time_us: float
    """Microseconds a call."""
    sm_clock_mhz: float
    """Mean SM clock, in MHz; 0 where unknown."""


def in_turn(block: Callable[[Side], PairedBlock], rng: Random, budget_s: float) -> tuple[PairedBlock, ...]:
    """Blocks in quads, until their ratio is precise or the time is up.

    Args:
        block: Runs a block of a side.
        rng: Where the order comes from.
        budget_s: Seconds for all; `LEAST_QUADS` are taken all the same.
    """
    begin = time.monotonic()
    blocks: list[PairedBlock] = []
    before: Side | None = None
    for quads, quad in enumerate(quad_order(rng, MOST_QUADS), 1):
        for side in _sides(quad):
            if side != before:
                # The first finds caches and clocks as the other side has left them.
                block(side)
            blocks.append(block(side))
            before = side
        spent = time.monotonic() - begin >= budget_s
        if (spent and quads >= LEAST_QUADS) or (quads >= ENOUGH_QUADS and is_precise(blocks)):
            break
    return tuple(blocks)


def log_times(blocks: Sequence[PairedBlock]) -> list[float] | None:
    """Natural logarithms of the times; None where a cold one is lost in the noise of its flushes."""
    if any(block.time_us <= 0 for block in blocks):
        return None
    return [math.log(block.time_us) for block in blocks]


def at_one_clock(blocks: Sequence[PairedBlock], logs: Sequence[float]) -> list[float]:
    """Logarithms of the times as they would be at the mean SM clock of all blocks.

    An analysis of covariance, with the side as the factor (R. A. Fisher, Statistical Methods for Research
    Workers, 4th ed. 1932, section 49.1). How a time goes with the clock is read within each side, where the
    code is the same: the time of work bound by the SMs goes with `clock ** -1`, that of work bound by memory
    not at all. Where that cannot be told from no effect, or the clock is not known, the times are left alone.
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


def ratio(blocks: Sequence[PairedBlock], logs: Sequence[float]) -> float:
    """Natural logarithm of new over old time, by these logarithms of the blocks' times."""
    return restart_log_ratio([(block.side, log) for block, log in zip(blocks, logs, strict=True)])


def is_precise(blocks: Sequence[PairedBlock]) -> bool:
    """Whether more quads would not make the ratio of a restart better than restarts are among themselves."""
    logs = log_times(blocks)
    if logs is None:
        return False
    logs = at_one_clock(blocks, logs)
    ratios = [ratio(blocks[at : at + 4], logs[at : at + 4]) for at in range(0, len(blocks), 4)]
    return stdev(ratios) / math.sqrt(len(ratios)) <= PRECISE_PCT / 100


def _sides(quad: Quad) -> tuple[Side, ...]:
    return ("A", "B", "B", "A") if quad == "ABBA" else ("B", "A", "A", "B")
