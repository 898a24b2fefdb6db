"""Run a test on both sides in step, with blocks in turn at each call of `time` that both have."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pytest_gpuperf.against.blocks import SideBlock, alone, in_turn, warm_up
from pytest_gpuperf.against.messages import Begin, BlockTime, Ended, GoOn, Ready, RunBlock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from pytest_gpuperf.against.messages import Command
    from pytest_gpuperf.against.side_process import SideProcess
    from pytest_gpuperf.statistics.sequential import Side


@dataclass
class RestartResult:
    """The result of one test on both sides in one restart."""

    ready: dict[Side, dict[str, Ready]] = field(default_factory=lambda: {"A": {}, "B": {}})
    """The calls of a side by label, in their order."""
    failures: dict[Side, str] = field(default_factory=dict)
    """How the test ended early, by side."""
    misplaced: str = ""
    """Why code or data of a side were not its own; empty if they were."""
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
        self.misplaced = self.misplaced or answer.misplaced
        if answer.failure:
            self.failures[side] = answer.failure


class _EndedEarlyError(Exception):
    """A test has ended although a block of it was due; with its side and answer."""


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

    def play(self, recorded: Mapping[str, bool]) -> RestartResult:
        """Run the test of both sides, one side at a time.

        Args:
            recorded: The choice of earlier restarts, by label; all restarts of a label have the same.

        Raises:
            LostError: A side process has ended, or hangs.
        """
        taken = RestartResult(new_first=next(iter(self._players)) == "B")
        at = {side: self._move(side, Begin(), taken) for side in self._players}
        while any(isinstance(place, Ready) for place in at.values()):
            old, new = at.get("A"), at["B"]
            moving = [side for side in self._players if isinstance(at[side], Ready)]
            if isinstance(new, Ready) and (old is None or _is_same(old, new)):
                shorts = [place.short for place in at.values() if isinstance(place, Ready)]
                taken.recorded[new.label] = recorded.get(new.label, all(shorts))
                try:
                    self._measure(new.label, taken, old is None)
                except _EndedEarlyError as early:
                    side, ended = early.args
                    at[side] = ended
                    taken.keep(side, ended)
                    moving.remove(side)
            elif isinstance(old, Ready) and isinstance(new, Ready) and old.label != new.label:
                # Old code lacks the label of new code, or has it later.
                moving = ["B"]
            for side in moving:
                at[side] = self._move(side, GoOn(), taken)
        return taken

    def _move(self, side: Side, command: Command, taken: RestartResult) -> Ready | Ended:
        """Let a side run to its next call of `time`, or to the end of the test."""
        answer = self._players[side].ask(command)
        assert isinstance(answer, (Ready, Ended))
        taken.keep(side, answer)
        return answer

    def _measure(self, label: str, taken: RestartResult, by_itself: bool) -> None:
        block = partial(self._block, recorded=taken.recorded[label])
        if by_itself:
            taken.blocks[label] = alone(partial(block, "B"), self._budget_s)
        else:
            # Events load the GPU better than CUPTI, which it waits for.
            warm_up(self._block, self._budget_s)
            taken.blocks[label] = in_turn(block, self._rng, self._budget_s)

    def _block(self, side: Side, *, recorded: bool = False) -> SideBlock:
        answer = self._players[side].ask(RunBlock(recorded))
        if isinstance(answer, Ended):
            raise _EndedEarlyError(side, answer)
        assert isinstance(answer, BlockTime)
        return SideBlock(side, answer.time_us, answer.sm_clock_mhz)


def _is_same(old: Ready | Ended, new: Ready) -> bool:
    """Return True if both sides are at the same call."""
    return isinstance(old, Ready) and (old.label, old.call) == (new.label, new.call)
