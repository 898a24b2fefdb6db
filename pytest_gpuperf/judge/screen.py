"""The screen: a time next to the stored sessions of its baseline, at one SM clock.

Nothing fails because of the screen: a time outside is a suspect, which is settled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Literal

import msgspec

from pytest_gpuperf.records import Toolchain
from pytest_gpuperf.records.baseline import RunNote, Session, card_of
from pytest_gpuperf.statistics.clock_model import (
    ClockModel,
    normalisation_error,
    normalise,
    normalise_blocks,
    pool_models,
)
from pytest_gpuperf.statistics.decision import Decision, Outcome, as_pct, standard_error, trimmed_mean
from pytest_gpuperf.statistics.sequential import LOSS_PCT
from pytest_gpuperf.statistics.thresholds import HELD_BACK, MACHINE_PCT, NOISY_PCT, SCREEN_PCT

if TYPE_CHECKING:
    from pytest_gpuperf.records import Timing
    from pytest_gpuperf.records.baseline import TimeBaseline

PACKAGES = ("torch", "triton", "cuda", "python")
"""Parts of the toolchain that can change a kernel, besides the packages by name."""
_OF_MACHINE = ("driver", "gpuperf", "allocator")


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Origin of a new time, and of the sessions that it is compared with."""

    card: str = ""
    """UUID of the GPU of the new time."""
    toolchain: Toolchain = Toolchain()
    """Versions with which it was taken."""
    runs: Mapping[str, RunNote] = {}
    """Origins of the sessions, by run id."""

    def counted(self, sessions: Iterable[Session]) -> list[list[Session]]:
        """Return the sessions that a new time is compared with, by card.

        They are those of the same card, driver and plugin; or else of the same card; or else of all cards.
        """
        cards: dict[str, list[Session]] = {}
        for session in sessions:
            cards.setdefault(card_of(session, self.runs), []).append(session)
        own = cards.get(self.card, [])
        alike = [session for session in own if not self._changed(session, _OF_MACHINE)]
        return [alike or own] if own else list(cards.values())

    def differences(self, sessions: Sequence[Session]) -> tuple[list[str], list[str]]:
        """Compare a new time with the newest of the sessions that it is compared with.

        Returns:
            Packages that can change a kernel, as `torch 2.11.0 -> 2.12.0`; then card, driver and this plugin.
        """
        groups = self.counted(sessions)
        newest = max((group[-1] for group in groups), key=sessions.index)
        before = card_of(newest, self.runs)
        other = ["another card"] if before and self.card and before != self.card else []
        return self._changed(newest, PACKAGES), [*other, *self._changed(newest, _OF_MACHINE)]

    def _changed(self, session: Session, names: Sequence[str]) -> list[str]:
        before = self.runs[session.run].toolchain if session.run in self.runs else Toolchain()
        pairs = [(name, getattr(before, name), getattr(self.toolchain, name)) for name in names]
        if names is PACKAGES:
            now = self.toolchain.packages
            pairs += [(name, old, now.get(name, "")) for name, old in before.packages.items()]
        return [f"{name} {old} -> {new}" for name, old, new in pairs if old and new and old != new]


class TimeComparison(msgspec.Struct, frozen=True, gc=False):
    """Time compared with its baseline."""

    decision: Decision
    actual_us: float
    """New time at `at_mhz`, like `baseline_us`."""
    baseline_us: float
    """Geometric mean over the sessions, or the time of the old code."""
    at_mhz: float = 0.0
    """SM clock that both were brought to; 0 if they are compared as measured."""
    actual_mhz: float = 0.0
    """Mean SM clock of the new time; 0 if unknown."""
    baseline_mhz: float = 0.0
    """Mean SM clock of the sessions; 0 if unknown."""
    how: Literal["screen", "in turn", "fresh"] = "screen"
    """Way of the comparison, so that `decision.replicates` counts sessions, restarts or processes."""
    stored: int = 0
    """Number of stored sessions, of which only those of the same card may count; 0 in turn."""
    against: str = ""
    """Older code of a comparison in turn, as the user named it or by its commit."""
    why: tuple[str, ...] = ()
    """Facts that decided, besides the restarts or the screen."""
    too_noisy: bool = False
    """True if its own error is larger than the screen: it does not pass by that."""
    suspect: bool = False
    """True if it has to be settled."""

    @property
    def outcome(self) -> Outcome:
        """Outcome of the comparison."""
        return self.decision.outcome


class OneClock(msgspec.Struct, frozen=True, gc=False):
    """The clock and the model for all times of a test."""

    model: ClockModel
    at_mhz: float
    """The SM clock that times are brought to; 0 if they stay as measured."""

    @classmethod
    def of(cls, times: TimeBaseline, timing: Timing) -> OneClock:
        """Pool the models of stored sessions, or take that of a new time if they have none.

        If no model is known, times stay as measured.
        """
        models = [session.clock_model for session in times.sessions if session.clock_model is not None]
        models = models or list(filter(None, [timing.clock_model]))
        if not models:
            return cls.as_measured(times)
        at_mhz = times.reference_mhz or models[0].reference_mhz
        return cls(pool_models(models, at_mhz), at_mhz)

    @classmethod
    def as_measured(cls, times: TimeBaseline) -> OneClock:
        """Leave times as they are, with the error of clocks that differ from the mean one of the sessions.

        The share of a time that depends on the clock may be from 0 to 1: its root mean square counts.
        """
        clocks = [session.sm_clock_mhz for session in times.sessions]
        mhz, error = (fmean(clocks), 1 / math.sqrt(3)) if all(clocks) else (1.0, 0.0)
        return cls(ClockModel(cycles=0.0, fixed_us=1.0, reference_mhz=mhz, share_error=error), 0.0)

    def logs(self, times: TimeBaseline) -> dict[Session, float]:
        """Return the logarithm of each session's time in µs, without those whose own clock is not known."""
        return {one: math.log(us) for one in times.sessions if (us := self._stored_us(one)) > 0}

    def _stored_us(self, session: Session) -> float:
        own, mhz = session.clock_model, session.sm_clock_mhz
        if not self.at_mhz:
            return session.time_us
        if not mhz:
            return session.normalised_us
        # Its blocks were brought to the one clock one by one, by its own model.
        measured_us = normalise(session.normalised_us, self.at_mhz, own, mhz) if own else session.time_us
        return normalise(measured_us, mhz, self.model, self.at_mhz)

    def blocks(self, times_us: Sequence[float], clocks: Sequence[float]) -> list[float]:
        """Return blocks at the one clock, in µs."""
        return normalise_blocks(times_us, clocks, self.model, self.at_mhz) if self.at_mhz else [*times_us]

    def error(self, mhz: float) -> float:
        """Return the relative error of a time from an SM clock, in MHz; 0 if the clock is not known."""
        return normalisation_error(mhz, self.model, self.at_mhz) if mhz else 0.0


def screen(
    timing: Timing, known: TimeBaseline, origin: Origin, tolerance_pct: float = 0.0
) -> TimeComparison | None:
    """Compare a time with the stored sessions: `pass` within the screen, else `inconclusive`, a suspect.

    The sessions of one card together weigh as much as those of another.

    Returns:
        None if the new time is not of the mode and source of the sessions.
    """
    found = timing.by(known.source)
    if found is None or found.mode != known.mode or timing.only_host:
        return None
    measured = OneClock.as_measured(known)
    for clock in (OneClock.of(known, found) if found.sm_clock_mhz else measured, measured):
        logs, blocks = clock.logs(known), clock.blocks(found.blocks_us, found.blocks_mhz)
        time_us = trimmed_mean(blocks) if clock.at_mhz else found.time_us
        # Cold blocks below 0 may outweigh the others by the model of another session.
        if logs and time_us > 0:
            break
    groups = origin.counted(logs)
    sessions = [session for group in groups for session in group]
    new_card = card_of(sessions[0], origin.runs) != origin.card
    expected = fmean(fmean(map(logs.__getitem__, group)) for group in groups)
    error = math.hypot(
        standard_error(blocks) / time_us,
        clock.error(found.sm_clock_mhz),
        fmean(clock.error(session.sm_clock_mhz) for session in sessions) if clock.at_mhz else 0.0,
    )
    widest = math.log1p(_width_pct(found, sessions, new_card=new_card) / 100)
    replicates = len(groups) if new_card else len(sessions)
    # More sessions narrow the share of the screen that is theirs.
    width = widest * math.sqrt((1 + 1 / replicates) / 2)
    # Small losses add up: nothing passes that the oldest sessions alone do not let pass.
    oldest = fmean(logs[group[0]] for group in groups)
    expected = min(max(expected, oldest - widest + width), oldest + widest - width)
    change, width = math.log(time_us) - expected, width + error
    too_noisy = error > max(widest, math.log1p(tolerance_pct / 100))
    inside = not too_noisy and (abs(change) <= width or 0 < as_pct(change) <= tolerance_pct)
    clocks = [session.sm_clock_mhz for session in sessions]
    return TimeComparison(
        decision=Decision(
            Outcome.PASS if inside else Outcome.INCONCLUSIVE,
            as_pct(change),
            as_pct(change - width),
            as_pct(change + width),
            len(sessions),
            new_card=new_card,
        ),
        actual_us=time_us,
        baseline_us=math.exp(expected),
        at_mhz=clock.at_mhz,
        actual_mhz=found.sm_clock_mhz,
        baseline_mhz=fmean(clocks) if all(clocks) else 0.0,
        stored=len(known.sessions),
        too_noisy=too_noisy,
    )


def spread_pct(timing: Timing) -> float:
    """Return how far a time of another process of the same code may be from this one, in %."""
    return _width_pct(timing, (), new_card=False) + 100 * standard_error(timing.blocks_us) / timing.time_us


def _width_pct(timing: Timing, sessions: Sequence[Session], *, new_card: bool) -> float:
    """Return the width for one session by the classes that are noisy, in %."""
    if timing.mode == "host":
        return MACHINE_PCT * (1 + new_card)
    clocks = [timing.sm_clock_mhz, *(session.sm_clock_mhz for session in sessions)]
    highest = max(*clocks, timing.conditions.max_sm_clock_mhz if timing.conditions is not None else 0)
    # A clock that is not known may have been any.
    noisy = timing.mode == "kernels" or not all(mhz >= HELD_BACK * highest > 0 for mhz in clocks)
    return max(SCREEN_PCT, NOISY_PCT * noisy, LOSS_PCT * new_card)
