"""Two callables in turn in one process: rounds, in which they go first in turn."""

from __future__ import annotations

import gc
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_gpuperf.against.blocks import SideBlock, in_turn, warm_up
from pytest_gpuperf.against.git import Commit
from pytest_gpuperf.against.restart_series import Series
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.libcupti import kept_attached

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gpuperf.measure.timing.batch import Batch
    from pytest_gpuperf.measure.timing.timer import Timer
    from pytest_gpuperf.records import AgainstTiming
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.statistics.sequential import Side


class Rounds:
    """Rounds of two sides, each of which is prepared again in each round.

    Args:
        timer: Makes calls ready to be timed.
        mode: Timing mode, or `auto`; both sides have the same one.
        recorded: True if CUPTI times the blocks; None if it does so for short calls.
    """

    def __init__(self, timer: Timer, mode: str, *, recorded: bool | None = None) -> None:
        self.series = Series(recorded=recorded)
        self._timer = timer
        self._mode = mode
        self._rng = Random(0)  # noqa: S311 - the order of blocks

    def run(self, calls: Mapping[Side, Callable[[], Any]], budget_s: float) -> Mapping[Side, Batch]:
        """Run a round, and return the timed blocks.

        Args:
            calls: The sides.
            budget_s: Seconds for its blocks.

        Raises:
            GpuperfError: A side cannot be timed, or both have no mode in common.
        """
        # The graphs of the round before hold gigabytes.
        gc.collect()
        new_first = bool(len(self.series.restarts) % 2)
        prepared = self._prepared(calls, ("B", "A") if new_first else ("A", "B"))
        if self.series.recorded is None:
            self.series.recorded = prepared["A"].records_better() and prepared["B"].records_better()
        with kept_attached():
            if not self.series.restarts:
                warm_up(partial(_block, prepared), budget_s)
            blocks = in_turn(partial(_block, prepared, recorded=self.series.recorded), self._rng, budget_s)
        self.series.add(blocks, prepared["A"].mode, new_first=new_first)
        return prepared

    def _prepared(
        self, calls: Mapping[Side, Callable[[], Any]], order: tuple[Side, Side]
    ) -> Mapping[Side, Batch]:
        """Prepare both sides in one mode; if one side does not allow it, by their kernels, or by the host."""
        refused: GpuperfError | None = None
        for mode in (self._mode, "kernels", "host"):
            try:
                prepared = {side: self._timer.prepare(calls[side], mode) for side in order}
            except GpuperfError as error:
                refused = error
                continue
            if prepared["A"].mode == prepared["B"].mode:
                self._mode = mode
                return prepared
        raise refused or GpuperfError("both callables have no timing mode in common")


def time_in_turn(timer: Timer, places: Sequence[Call], other: Call, mode: str) -> AgainstTiming:
    """Time a call and another one in turn, in both orders at each place.

    Args:
        timer: Makes calls ready to be timed.
        places: The first call, on its own tensors and on copies at other places in memory; an odd number.
        other: A call with the same arguments.
        mode: Timing mode, or `auto`.

    Raises:
        GpuperfError: They cannot be timed, or have no mode in common.
    """
    rounds = Rounds(timer, mode)
    for place in (*places, *places):
        rounds.run({"A": place, "B": replace(place, fn=other.fn)}, timer.budget_s / (2 * len(places)))
        if why := rounds.series.reason:
            raise GpuperfError(f"{places[0]} and {other} cannot be timed in turn: {why}")
    return rounds.series.record(Commit(places[0].label, ""))


def _block(prepared: Mapping[Side, Batch], side: Side, *, recorded: bool = False) -> SideBlock:
    timed = prepared[side].block(recorded=recorded)
    return SideBlock(side, timed.time_us, timed.sm_clock_mhz)
