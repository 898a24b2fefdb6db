"""The restarts of one call, and the decision that they lead to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_gpuperf.against.blocks import SideBlock, at_one_clock, ratio, with_times
from pytest_gpuperf.records import AgainstTiming
from pytest_gpuperf.statistics.decision import Decision, Outcome, trimmed_mean
from pytest_gpuperf.statistics.sequential import Side, decide_restarts

if TYPE_CHECKING:
    from pytest_gpuperf.against.git import Commit
    from pytest_gpuperf.against.turns import RestartResult
    from pytest_gpuperf.records import LaunchedCode, TimingMode

TOO_SHORT = "it is too short to be timed cold, as blocks at or below 0 µs show"
NOT_RECORDED = "CUPTI could not record enough of its blocks"


@dataclass(frozen=True)
class Restart:
    """One restart of both sides."""

    blocks: tuple[SideBlock, ...]
    """In quads, with their clocks."""
    logs: list[float]
    """Natural logarithm of the time of each block, at the restart's mean clock."""
    log_ratio: float
    raw_log_ratio: float
    """Natural logarithm of new over old time, as measured."""
    new_first: bool
    """True if the new code went first."""


@dataclass
class Series:
    """One label of one test."""

    restarts: list[Restart] = field(default_factory=list)
    mode: TimingMode | None = None
    recorded: bool | None = None
    """True if CUPTI times the blocks; None before the first restart."""
    code: LaunchedCode | None = None
    """Code of the old side; None if it was not read."""
    autotuned: tuple[str, ...] = ()
    """What autotuners chose for it."""
    reason: str = ""
    """Why it cannot be compared; empty if it can."""
    decision: Decision | None = None

    @property
    def log_ratios(self) -> list[float]:
        """Natural logarithm of new over old time, of each restart, at one clock."""
        return [restart.log_ratio for restart in self.restarts]

    @property
    def is_settled(self) -> bool:
        """True if it needs no further restart."""
        return bool(self.reason) or (
            self.decision is not None and self.decision.outcome is not Outcome.INCONCLUSIVE
        )

    def take(self, taken: RestartResult, label: str, commit: Commit) -> None:
        """Add the blocks of a restart, or the reason why there are none."""
        if label in taken.blocks and not taken.void:
            self.recorded = taken.recorded[label]
            if (old := taken.ready["A"][label]).code is not None:
                self.code, self.autotuned = old.code, old.autotuned
            self.add(taken.blocks[label], taken.ready["B"][label].call.mode, new_first=taken.new_first)
        else:
            self.reason = _why_not_timed(taken, label, commit)

    def add(self, blocks: tuple[SideBlock, ...], mode: TimingMode, *, new_first: bool) -> None:
        """Add one restart."""
        blocks = with_times(blocks)
        if not blocks:
            self.reason = NOT_RECORDED if self.recorded else TOO_SHORT
            return
        raw = [math.log(block.time_us) for block in blocks]
        logs = at_one_clock(blocks, raw)
        self.restarts.append(Restart(blocks, logs, ratio(blocks, logs), ratio(blocks, raw), new_first))
        self.mode = mode

    def judge(self, tolerance_pct: float, *, final: bool) -> None:
        """Decide by the restarts so far, if there are any."""
        if self.log_ratios and not self.is_settled:
            self.decision = decide_restarts(
                self.log_ratios,
                tolerance_pct,
                final=final,
                raw=[restart.raw_log_ratio for restart in self.restarts],
                new_first=[restart.new_first for restart in self.restarts],
                by_host=self.mode == "host",
            )

    def record(self, commit: Commit) -> AgainstTiming:
        """Return the ratios and times as a record."""
        return AgainstTiming(
            ref=commit.ref,
            commit=commit.id,
            mode=self.mode,
            recorded=bool(self.recorded),
            log_ratios=tuple(round(restart.log_ratio, 7) for restart in self.restarts),
            raw_log_ratios=tuple(round(restart.raw_log_ratio, 7) for restart in self.restarts),
            new_first=tuple(restart.new_first for restart in self.restarts),
            old_us=self._time_us("A"),
            new_us=self._time_us("B"),
            old_mhz=self._clock_mhz("A"),
            new_mhz=self._clock_mhz("B"),
            code=self.code,
            autotuned=self.autotuned,
        )

    def _time_us(self, side: Side) -> float:
        pairs = [pair for one in self.restarts for pair in zip(one.blocks, one.logs, strict=True)]
        times_us = [math.exp(log) for block, log in pairs if block.side == side]
        return round(trimmed_mean(times_us), 6) if times_us else 0.0

    def _clock_mhz(self, side: Side) -> float:
        clocks = [
            block.sm_clock_mhz for restart in self.restarts for block in restart.blocks if block.side == side
        ]
        return round(sum(clocks) / len(clocks), 1) if clocks and all(clocks) else 0.0


def _why_not_timed(taken: RestartResult, label: str, commit: Commit) -> str:
    old, new = taken.ready["A"].get(label), taken.ready["B"].get(label)
    if taken.void:
        return taken.void
    if old is not None and new is not None and old.call != new.call:
        return f"another call on {commit}: {old.call.difference(new.call)}"
    if "A" in taken.failures:
        return f"on {commit} {taken.failures['A']}"
    if "B" in taken.failures:
        return f"in a fresh process {taken.failures['B']}"
    if new is None:
        return f"in a fresh process the test times no {label!r}"
    if old is None:
        return f"not on {commit}: the test times no {label!r} there"
    return f"the test makes its calls in another order on {commit}"
