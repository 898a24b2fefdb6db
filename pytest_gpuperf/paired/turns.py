"""One test on both sides in step: at each call of `time` that they have in common, blocks in turn."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from statistics import stdev
from typing import TYPE_CHECKING, Protocol

from pytest_gpuperf.paired.messages import Begin, Ended, GoOn, Ready, RunBlock, Timed
from pytest_gpuperf.verdict.paired import Side, quad_order, restart_log_ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from random import Random

    from pytest_gpuperf.paired.messages import Answer, Command
    from pytest_gpuperf.records import TimingMode
    from pytest_gpuperf.verdict.paired import Quad

SIDES: tuple[Side, Side] = ("A", "B")
LEAST_QUADS = 3
ENOUGH_QUADS = 5
"""Before they are asked how precise they are."""
MOST_QUADS = 64
PRECISE_PCT = 0.03
"""Standard error of a restart's ratio, in per cent, below which more blocks tell nothing: restarts differ by
more."""


class Player(Protocol):
    """A worker that does what it is told and says where it has come to."""

    def ask(self, command: Command) -> Answer:
        """Give a command and wait for the answer."""


@dataclass(frozen=True)
class PairedBlock:
    """One block of one side."""

    side: Side
    time_us: float
    """Microseconds a call."""
    sm_clock_mhz: float
    """Mean SM clock, in MHz; 0 where unknown."""


@dataclass
class Taken:
    """What one run of one test on both sides came to."""

    modes: dict[Side, dict[str, TimingMode]] = field(default_factory=lambda: {"A": {}, "B": {}})
    """By label, in the order in which a side came to it."""
    failures: dict[Side, str] = field(default_factory=dict)
    """How the test ended early on a side."""
    misplaced: str = ""
    """Why what a side has imported is not its code; empty where it is."""
    blocks: dict[str, tuple[PairedBlock, ...]] = field(default_factory=dict)
    """By label, in quads."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By label: what its blocks took."""
    shared: set[str] = field(default_factory=set)
    """Modules that both sides took from the checkout."""

    def keep(self, side: Side, answer: Ready | Ended) -> None:
        """Keep what a side has said."""
        if isinstance(answer, Ready):
            self.modes[side][answer.label] = answer.mode
            return
        self.shared.update(answer.shared)
        self.misplaced = self.misplaced or answer.misplaced
        if answer.failure:
            self.failures[side] = answer.failure


class _EndedEarlyError(Exception):
    """A test has ended where a block of it was wanted."""

    def __init__(self, side: Side, ended: Ended) -> None:
        super().__init__(ended.failure)
        self.side = side
        self.ended = ended


class Turns:
    """Plays the tests of one restart.

    Args:
        players: The workers.
        rng: Where the order of the sides comes from.
        budget_s: Seconds for the blocks of one label; `LEAST_QUADS` are taken all the same.
    """

    def __init__(self, players: Mapping[Side, Player], rng: Random, budget_s: float) -> None:
        self._players = players
        self._rng = rng
        self._budget_s = budget_s

    def play(self) -> Taken:
        """Run the next test of both sides, one side at a time.

        Raises:
            LostError: A worker has died, or hangs.
        """
        taken = Taken()
        at = {side: self._move(side, Begin(), taken) for side in self._shuffled(SIDES)}
        while any(isinstance(place, Ready) for place in at.values()):
            old, new = at["A"], at["B"]
            moving = [side for side in SIDES if isinstance(at[side], Ready)]
            if isinstance(old, Ready) and isinstance(new, Ready):
                if old == new:
                    try:
                        self._measure(new.label, taken)
                    except _EndedEarlyError as early:
                        at[early.side] = early.ended
                        taken.keep(early.side, early.ended)
                        moving.remove(early.side)
                elif old.label != new.label:
                    # One of them may be unknown to the other side. That is clear once both tests have ended,
                    # and the next restart passes it over.
                    moving = ["B"]
            for side in self._shuffled(moving):
                at[side] = self._move(side, GoOn(), taken)
        return taken

    def _move(self, side: Side, command: Command, taken: Taken) -> Ready | Ended:
        """Let a side run to its next call of `time`, or to the end of the test."""
        answer = self._players[side].ask(command)
        assert isinstance(answer, (Ready, Ended))
        taken.keep(side, answer)
        return answer

    def _measure(self, label: str, taken: Taken) -> None:
        begin = time.monotonic()
        blocks: list[PairedBlock] = []
        before: Side | None = None
        for quads, quad in enumerate(quad_order(self._rng, MOST_QUADS), 1):
            for side in _sides(quad):
                if side != before:
                    # The first finds caches and clocks as the other side has left them.
                    self._block(side)
                blocks.append(self._block(side))
                before = side
            spent = time.monotonic() - begin >= self._budget_s
            if (spent and quads >= LEAST_QUADS) or (quads >= ENOUGH_QUADS and is_precise(blocks)):
                break
        taken.blocks[label] = tuple(blocks)
        taken.seconds[label] = time.monotonic() - begin

    def _block(self, side: Side) -> PairedBlock:
        answer = self._players[side].ask(RunBlock())
        if isinstance(answer, Ended):
            raise _EndedEarlyError(side, answer)
        assert isinstance(answer, Timed)
        return PairedBlock(side, answer.time_us, answer.sm_clock_mhz)

    def _shuffled(self, sides: Iterable[Side]) -> list[Side]:
        shuffled = list(sides)
        self._rng.shuffle(shuffled)
        return shuffled


def log_ratio(blocks: Sequence[PairedBlock]) -> float | None:
    """Natural logarithm of new over old time; None where a cold time is lost in the noise of its flushes."""
    if any(block.time_us <= 0 for block in blocks):
        return None
    return restart_log_ratio([(block.side, math.log(block.time_us)) for block in blocks])


def is_precise(blocks: Sequence[PairedBlock]) -> bool:
    """Whether more quads would not make the ratio of a restart better than restarts are among themselves."""
    ratios = [log_ratio(blocks[at : at + 4]) for at in range(0, len(blocks), 4)]
    known = [ratio for ratio in ratios if ratio is not None]
    return len(known) == len(ratios) and stdev(known) / math.sqrt(len(known)) <= PRECISE_PCT / 100


def _sides(quad: Quad) -> tuple[Side, ...]:
    return ("A", "B", "B", "A") if quad == "ABBA" else ("B", "A", "A", "B")
