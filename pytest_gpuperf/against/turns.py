"""Run a test on both sides in step, with blocks in turn at each call of `time` that both have."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pytest_gpuperf.against.blocks import SideBlock, alone, in_turn, warm_up
from pytest_gpuperf.against.messages import Begin, BlockTime, Ended, GoOn, Ready, RunBlock

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from random import Random

    from pytest_gpuperf.against.messages import Answer, Command
    from pytest_gpuperf.against.side_process import SideProcess
    from pytest_gpuperf.statistics.sequential import Side


@dataclass
class RestartResult:
    """The result of one test on both sides in one restart."""

    ready: dict[Side, dict[str, Ready]] = field(default_factory=lambda: {"A": {}, "B": {}})
    """The calls of a side by label, in their order."""
    failures: dict[Side, str] = field(default_factory=dict)
    """How the test ended early, by side."""
    void: str = ""
    """Why no time of it counts, such as code or data that were not the side's own; empty if they do."""
    blocks: dict[str, tuple[SideBlock, ...]] = field(default_factory=dict)
    """Blocks by label, in quads."""
    recorded: dict[str, bool] = field(default_factory=dict)
    """By label, True if CUPTI has timed the blocks."""
    new_first: bool = False
    """True if the new code went first."""

    def keep(self, side: Side, answer: Ready | Ended) -> None:
        """Keep an answer of a side."""
        if isinstance(answer, Ready):
            self.ready[side][answer.label] = answer
            return
        self.void = self.void or answer.misplaced
        if answer.failure:
            self.failures[side] = answer.failure


class _EndedEarlyError(Exception):
    """A test has ended although a block of it was due."""


class Turns:
    """Plays the test of one restart.

    Args:
        players: The side processes; the first one goes first. There may be only one, of new code.
        rng: Chooses the order of the blocks.
        budget_s: Seconds for the blocks of one label; see `in_turn`.
    """

    def __init__(self, players: Mapping[Side, SideProcess], rng: Random, budget_s: float) -> None:
        self._players = players
        self._rng = rng
        self._budget_s = budget_s
        self._taken = RestartResult(new_first=next(iter(players)) == "B")
        self._at: dict[Side, Ready | Ended] = {}
        """The last answer of each side."""
        self.blocks_s = 0.0
        """Seconds of the blocks so far."""

    def play(self, labels: Container[str], recorded: Mapping[str, bool]) -> RestartResult:
        """Run the test of both sides, one side at a time.

        Args:
            labels: Labels to time: the sides began when it was not known yet which are decided.
            recorded: The choice of earlier restarts, by label; all restarts of a label have the same.

        Raises:
            LostError: A side process has ended, or hangs.
        """
        for side in self._players:
            self._ask(side, Begin())
        while ready := {side: place for side, place in self._at.items() if isinstance(place, Ready)}:
            old, new = self._at.get("A"), ready.get("B")
            if new is not None and (old is None or _is_same(old, new)) and new.label in labels:
                shorts = [place.short for place in ready.values()]
                self._taken.recorded[new.label] = recorded.get(new.label, all(shorts))
                begin = time.monotonic()
                with suppress(_EndedEarlyError):
                    self._measure(new.label, by_itself=old is None)
                self.blocks_s += time.monotonic() - begin
            elif len({place.label for place in ready.values()}) > 1:
                # Old code lacks the label of new code, or has it later.
                del ready["A"]
            for side in ready:
                if isinstance(self._at[side], Ready):
                    self._ask(side, GoOn())
        return self._taken

    def _ask(self, side: Side, command: Command) -> Answer:
        """Let a side time a block, or run to its next call of `time` or to the end of the test."""
        answer = self._players[side].ask(command)
        if isinstance(answer, (Ready, Ended)):
            self._at[side] = answer
            self._taken.keep(side, answer)
        return answer

    def _measure(self, label: str, *, by_itself: bool) -> None:
        block = partial(self._block, recorded=self._taken.recorded[label])
        if by_itself:
            self._taken.blocks[label] = alone(partial(block, "B"), self._budget_s)
        else:
            # Events load the GPU better than CUPTI, which it waits for.
            warm_up(self._block, self._budget_s)
            self._taken.blocks[label] = in_turn(block, self._rng, self._budget_s)

    def _block(self, side: Side, *, recorded: bool = False) -> SideBlock:
        answer = self._ask(side, RunBlock(recorded))
        if not isinstance(answer, BlockTime):
            raise _EndedEarlyError
        return SideBlock(side, answer.time_us, answer.sm_clock_mhz)


def _is_same(old: Ready | Ended, new: Ready) -> bool:
    """Return True if both sides are at the same call."""
    return isinstance(old, Ready) and (old.label, old.call) == (new.label, new.call)
