"""Time of a test compared with the sessions of its baseline, or with older code measured in turn."""

from __future__ import annotations

import math
from functools import cached_property, partial
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pytest_gpuperf.judge.one_clock import OneClock
from pytest_gpuperf.records.baseline import Session, card_of
from pytest_gpuperf.records.timing import LOOKS
from pytest_gpuperf.statistics.decision import Decision, Outcome, Thresholds
from pytest_gpuperf.statistics.estimate import standard_error, trimmed_mean
from pytest_gpuperf.statistics.one_session import decide_session
from pytest_gpuperf.statistics.sequential import change_pct, decide_restarts
from pytest_gpuperf.statistics.variance import LogTime, moderate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pytest_gpuperf.records import AgainstTiming, Timing
    from pytest_gpuperf.records.baseline import Baseline, RunNote, TimeBaseline
    from pytest_gpuperf.statistics.variance import Variance

Key: TypeAlias = tuple[str, str]
"""Node id of the test and label of the measurement."""

ENOUGH_BLOCKS = 10
"""Minimum number of blocks for a standard error."""
UNKNOWN_CLOCK = 0.1
"""Standard deviation of the logarithm of an unknown SM clock: that of any clock between 1,400 and 1,980 MHz,
as an H200 has under load."""


class TimeComparison(msgspec.Struct, frozen=True, gc=False):
    """Time compared with its baseline."""

    decision: Decision
    actual_us: float
    """New time at `at_mhz`, like `baseline_us`."""
    baseline_us: float
    """Geometric mean over the sessions."""
    raw_change_pct: float
    """Change of the times as measured, at any clock."""
    at_mhz: float = 0.0
    """SM clock that both were brought to; 0 if they are compared as measured."""
    actual_mhz: float = 0.0
    """Mean SM clock of the new time; 0 if unknown."""
    baseline_mhz: float = 0.0
    """Mean SM clock of the sessions; 0 if unknown."""
    against: str = ""
    """Name of the baseline; empty for the stored sessions."""
    in_turn: bool = False
    """True if both were taken in turn on one machine, so that `decision.replicates` counts restarts."""

    @property
    def slower(self) -> bool:
        """True if the time has regressed."""
        return self.decision.outcome is Outcome.REGRESSED

    @property
    def faster(self) -> bool:
        """True if the time has improved."""
        return self.decision.outcome is Outcome.IMPROVED


class _Stored(msgspec.Struct, frozen=True, gc=False):
    """Sessions of a test that a new time is compared with."""

    clock: OneClock | None
    """Clock that they were brought to; None if they are as measured."""
    sessions: tuple[Session, ...]
    log_times: tuple[LogTime, ...]


class Gate:
    """Judge of the times of one run against baselines.

    The variance of a test between sessions is estimated from the sessions of all tests together.

    Args:
        baselines: All baselines that the run is compared with.
        card: UUID of the GPU that the run was measured on.
        comparisons: Number of times that are judged in the run, if that is more than `tests` have stored.
        tests: Node ids of the run; None for all that have a baseline.
        thresholds: The thresholds to apply.
        cards: UUID of the GPU of each test by node id; `card` for those that it lacks.
    """

    def __init__(
        self,
        baselines: Iterable[Baseline],
        *,
        card: str,
        comparisons: int,
        tests: Collection[str] | None = None,
        thresholds: Thresholds | None = None,
        cards: Mapping[str, str] | None = None,
    ) -> None:
        self._card = card
        self._own_cards = cards or {}
        self._thresholds = thresholds or Thresholds()
        self._times: dict[Key, TimeBaseline] = {}
        self._runs: dict[str, RunNote] = {}
        for baseline in baselines:
            self._runs.update(baseline.runs)
            for nodeid, test in baseline.tests.items():
                for label, measurement in test.measurements.items():
                    if measurement.time is not None:
                        self._times[nodeid, label] = measurement.time
        judged = [time for (test, _), time in self._times.items() if tests is None or test in tests]
        self._comparisons = max(1, comparisons, len(judged))

    def compare(self, key: Key, timing: Timing, tolerance_pct: float = 0.0) -> TimeComparison | None:
        """Judge a time against the stored sessions; None if none of its mode and source are stored.

        Args:
            key: Node id and label.
            timing: The new time.
            tolerance_pct: Slowdown that is accepted, in %; 0 leaves it to statistics.
        """
        times = self._times.get(key)
        return None if times is None else self._compare(key, timing, times, tolerance_pct)

    def _compare(
        self,
        key: Key,
        timing: Timing,
        times: TimeBaseline,
        tolerance_pct: float,
    ) -> TimeComparison | None:
        found = timing.by(times.source)
        if found is None or found.mode != times.mode or timing.only_host:
            return None
        timing, stored = found, self._brought(key, times, found)
        blocks, time_us = timing.blocks_us, timing.time_us
        clock = stored.clock.for_time(timing) if stored.clock is not None else None
        if clock is not None:
            brought = clock.blocks_us(timing)
            if (brought_us := trimmed_mean(brought)) > 0:
                blocks, time_us = brought, brought_us
            else:
                # Cold blocks below 0 may outweigh the others by the model of another session.
                stored, clock = self._stored(times, None), None
        sessions = stored.sessions
        new = _new(timing, blocks, time_us, clock, self._own_cards.get(key[0], self._card))
        if clock is None:
            error = math.hypot(new.standard_error, _clock_error(timing, times, sessions))
            new = LogTime(new.log_time, new.card, error)
        decision = decide_session(
            new,
            stored.log_times,
            self._variance(key, stored),
            self._thresholds.of(times.mode),
            self._comparisons,
            tolerance_pct,
        )
        # The decision counts only the sessions of this card, if there are any.
        counted = [one for one in sessions if card_of(one, self._runs) == new.card] or sessions
        raw = fmean(math.log(session.time_us) for session in counted)
        clocks = [session.sm_clock_mhz for session in counted]
        return TimeComparison(
            decision=decision,
            actual_us=math.exp(new.log_time),
            baseline_us=math.exp(new.log_time) / (1 + decision.change_pct / 100),
            raw_change_pct=100 * math.expm1(math.log(timing.time_us) - raw),
            at_mhz=clock.at_mhz if clock is not None else 0.0,
            actual_mhz=timing.sm_clock_mhz,
            baseline_mhz=fmean(clocks) if all(clocks) else 0.0,
        )

    def _brought(self, key: Key, times: TimeBaseline, timing: Timing) -> _Stored:
        """Bring the sessions to one clock, if that of a new time is known."""
        if not timing.sm_clock_mhz:
            return self._stored(times, None)
        stored = self._known[key]
        if stored.clock is None and timing.clock_model is not None:
            stored = self._stored(times, OneClock.of(times, timing))
        return stored

    def _stored(self, times: TimeBaseline, clock: OneClock | None) -> _Stored:
        """Bring the sessions to a clock, without those whose own is not known; else take them as measured."""
        if clock is not None:
            brought = [(one, time_us) for one in times.sessions if (time_us := clock.stored_us(one)) > 0]
            if brought:
                log_times = (
                    LogTime(math.log(us), card_of(one, self._runs), clock.error(one.sm_clock_mhz))
                    for one, us in brought
                )
                return _Stored(clock, tuple(one for one, _ in brought), tuple(log_times))
        sessions = times.sessions
        log_times = (LogTime(math.log(one.time_us), card_of(one, self._runs)) for one in sessions)
        return _Stored(None, sessions, tuple(log_times))

    def _variance(self, key: Key, stored: _Stored) -> Variance:
        if (stored.clock is None) == (self._known[key].clock is None) and key in self._variances:
            return self._variances[key]
        # The clock is not known, so its effect on the time is part of the noise.
        return moderate({key: stored.log_times}, self._thresholds.of(self._times[key].mode))[key]

    @cached_property
    def _known(self) -> dict[Key, _Stored]:
        """The sessions of each test at one clock, or as measured."""
        return {key: self._stored(times, OneClock.of(times)) for key, times in self._times.items()}

    @cached_property
    def _variances(self) -> dict[Key, Variance]:
        """Variance of each test, estimated together with those of the same mode."""
        found: dict[Key, Variance] = {}
        for mode in {time.mode for time in self._times.values()}:
            alike = {
                key: self._known[key].log_times for key, time in self._times.items() if time.mode == mode
            }
            found.update(moderate(alike, self._thresholds.of(mode)))
        return found


def _new(
    timing: Timing, blocks: Sequence[float], time_us: float, clock: OneClock | None, card: str
) -> LogTime:
    error = clock.error(timing.sm_clock_mhz) if clock is not None else 0.0
    if len(blocks) >= ENOUGH_BLOCKS:
        error = math.hypot(error, standard_error(blocks) / time_us)
    # A time that depends on the place of its tensors in memory is no more certain than those are alike.
    error = math.hypot(error, timing.looks_sd_pct / 100 / math.sqrt(LOOKS))
    return LogTime(math.log(time_us), card, error)


def _clock_error(timing: Timing, times: TimeBaseline, sessions: Sequence[Session]) -> float:
    """Return the relative error of a time from a clock that is unlike the sessions', or unknown.

    Without a model, the share of the time that depends on the clock may be anything from 0 to 1: its root
    mean square counts. If no clock is known at all, their effect is in the variance of the sessions.
    """
    known = OneClock.of(times, timing)
    share = known.model.sm_clock_share if known is not None else 1 / math.sqrt(3)
    clocks = [timing.sm_clock_mhz, *(session.sm_clock_mhz for session in sessions)]
    if not any(clocks):
        return 0.0
    if not all(clocks):
        return share * UNKNOWN_CLOCK
    return share * abs(math.log(clocks[0]) - fmean(map(math.log, clocks[1:])))


def compare_restarts(against: AgainstTiming, tolerance_pct: float) -> TimeComparison | None:
    """Judge a time against older code, both measured in turn on one GPU.

    Args:
        against: The ratios of both times.
        tolerance_pct: Slowdown that is accepted, in %; 0 leaves it to statistics.

    Returns:
        None without restarts.
    """
    if not against.log_ratios:
        return None
    decide = partial(
        decide_restarts,
        against.log_ratios,
        Thresholds(),
        tolerance_pct=tolerance_pct,
        raw=against.raw_log_ratios,
        new_first=against.new_first,
    )
    decision = decide()
    if decision.outcome is Outcome.INCONCLUSIVE:
        # A decision at the level of an early look stays; else the last look may use all that is left.
        decision = decide(final=True)
    # The decision is on the ratio of restarts; the mean of all blocks may differ from it a little.
    old_us = against.new_us / (1 + decision.change_pct / 100)
    raw = against.raw_log_ratios or against.log_ratios
    at_one_clock = raw != against.log_ratios and not decision.as_measured
    return TimeComparison(
        decision=decision,
        actual_us=against.new_us,
        baseline_us=old_us,
        raw_change_pct=change_pct(raw, against.new_first),
        at_mhz=fmean((against.new_mhz, against.old_mhz)) if at_one_clock else 0.0,
        actual_mhz=against.new_mhz,
        baseline_mhz=against.old_mhz,
        against=f"{against.ref} ({against.commit[:7]})",
        in_turn=True,
    )
