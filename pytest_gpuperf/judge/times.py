"""Judgement of a time next to its baseline: by the screen, and by the settlement of a suspect.

The screen compares a time with the stored sessions, at one SM clock. It fails nothing: a time outside is a
suspect, which is settled. Only a call whose graph is lost fails without that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.judge.result import Finding, Status, TimeComparison
from pytest_gpuperf.judge.settled_suspects import compare_restarts, judge_settlement
from pytest_gpuperf.records import Toolchain
from pytest_gpuperf.records.baseline import RunNote, Session, card_of
from pytest_gpuperf.records.change import show_pair
from pytest_gpuperf.records.kernel_code import is_same_code
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
    from collections.abc import Iterator

    from pytest_gpuperf.records import LaunchedCode, Measurement, Timing, TimingMode
    from pytest_gpuperf.records.baseline import MeasurementBaseline, TimeBaseline

PACKAGES = ("torch", "triton", "cuda", "python")
"""Parts of the toolchain that can change a kernel, besides the packages by name."""
OTHER_CALL = "another call than the baseline's"
BY_SESSIONS = "without --gpuperf-against the stored sessions decide"
ABSENT = re.compile(r"not on |on .* there is no such test")
"""Reasons why a test cannot be compared with old code that has not got it."""
AGAIN = "time it again while nothing else uses the GPU"
_REPLICATES = {"screen": "stored session", "in turn": "restart", "fresh": "fresh process"}
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

        They are those of the same card and `_OF_MACHINE`; or else of the same card; or else of all cards.
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
            return cls.as_measured(times, timing)
        at_mhz = times.reference_mhz or models[0].reference_mhz
        return cls(pool_models(models, at_mhz), at_mhz)

    @classmethod
    def as_measured(cls, times: TimeBaseline, timing: Timing) -> OneClock:
        """Leave times as they are, with the error of clocks that differ from the mean one of the sessions.

        One that is not known may have been the highest. The share of a time that depends on the clock may be
        from 0 to 1: its root mean square counts.
        """
        highest = timing.conditions.max_sm_clock_mhz if timing.conditions is not None else 0
        clocks = [session.sm_clock_mhz or highest for session in times.sessions]
        mhz, error = (fmean(clocks), 1 / math.sqrt(3)) if all(clocks) else (1.0, 0.0)
        return cls(ClockModel(cycles=0.0, fixed_us=1.0, reference_mhz=mhz, share_error=error), 0.0)

    def logs(self, times: TimeBaseline) -> dict[Session, float]:
        """Return the logarithm of each session's time in µs; those that have none there are left out."""
        return {one: math.log(us) for one in times.sessions if (us := self._stored_us(one)) > 0}

    def _stored_us(self, session: Session) -> float:
        own, mhz = session.clock_model, session.sm_clock_mhz
        if not self.at_mhz:
            return session.time_us
        if not mhz:
            return session.normalised_us
        # Its blocks were brought to the one clock by its own model: that is undone, and all share one model.
        measured_us = normalise(session.normalised_us, self.at_mhz, own, mhz) if own else session.time_us
        return normalise(measured_us, mhz, self.model, self.at_mhz)

    def blocks(self, times_us: Sequence[float], clocks: Sequence[float]) -> list[float]:
        """Return blocks at the one clock, in µs."""
        return normalise_blocks(times_us, clocks, self.model, self.at_mhz) if self.at_mhz else [*times_us]

    def error(self, mhz: float) -> float:
        """Return the relative error of a time from an SM clock, in MHz; an unknown one widens the screen."""
        return normalisation_error(mhz, self.model, self.at_mhz) if mhz else 0.0


def judge_time(
    measurement: Measurement,
    baseline: MeasurementBaseline,
    origin: Origin,
    tolerance_pct: float,
) -> tuple[TimeComparison | None, Finding | None]:
    """Judge a time by the old code that the user named, or else by the screen and the settlement.

    Returns:
        The comparison with the outcome, None if it was compared with nothing; and what there is to say of it.
    """
    settlement, timing, known = measurement.settlement, measurement.timing, baseline.time
    against = settlement.against if settlement is not None else None
    time, drift = None, ""
    if timing is None:
        return None, None
    if settlement is not None and settlement.names_code:
        time = compare_restarts(against, tolerance_pct)
        if time is None:
            line = (
                f"not compared with {against.ref if against is not None else 'old code'}: {settlement.reason}"
            )
            if known is None and ABSENT.match(settlement.reason):
                return None, Finding(Status.NEW, line)
            return None, Finding(Status.INCONCLUSIVE, line, next_step=BY_SESSIONS if known else "")
    elif known is not None:
        time = screen(timing, known, origin, tolerance_pct)
        if time is None:
            return None, _not_compared(timing, known, origin)  # which fails if the graph is lost
        if other := other_call(measurement, baseline):
            return None, Finding(Status.INCONCLUSIVE, f"{OTHER_CALL}: {other}")
        if time.outcome is not Outcome.PASS or settlement is not None:
            same = _has_code_of(baseline, measurement.code, against.code if against is not None else None)
            settled, cause = judge_settlement(time, settlement, known, same, origin, tolerance_pct)
            # A test that runs again may be within the screen by luck: that it was slower stays.
            if time.outcome is not Outcome.PASS or settled.outcome is Outcome.REGRESSED:
                time, drift = settled, cause
    if time is None or (time.outcome is Outcome.PASS and not time.why):
        return time, None
    if settlement is not None and settlement.setup_s and not time.suspect:
        time = msgspec.structs.replace(time, why=(*time.why, f"{settlement.setup_s} s of set-up a process"))
    noisy = time.too_noisy and time.outcome is Outcome.INCONCLUSIVE
    step = AGAIN if noisy else ""
    return time, Finding(
        Status(time.outcome.value), time_line(time, timing.mode), drift=drift, next_step=step
    )


def _has_code_of(baseline: MeasurementBaseline, *codes: LaunchedCode | None) -> bool | None:
    """Return True if one of the codes is that of a baseline, under any driver; None if none is known."""
    stored = baseline.code
    known = [code for code in codes if code is not None and stored is not None]
    if stored is None or not known:
        return None
    return any(is_same_code(msgspec.structs.replace(code, driver=stored.driver), stored) for code in known)


def other_call(measurement: Measurement, baseline: MeasurementBaseline) -> str:
    """Return how a call differs from that of the baseline; empty if it does not, or one is not known."""
    now, before = measurement.call, baseline.call
    return now.difference(before) if now is not None and before is not None else ""


def screen(
    timing: Timing, known: TimeBaseline, origin: Origin, tolerance_pct: float = 0.0
) -> TimeComparison | None:
    """Compare a time with the stored sessions: `pass` within the screen, else `inconclusive`.

    `judge_settlement` then decides, or makes it a suspect.

    The sessions of one card together weigh as much as those of another.

    Returns:
        None if the new time is not of the mode and source of the sessions.
    """
    found = timing.by(known.source)
    if found is None or found.mode != known.mode or timing.only_host:
        return None
    measured = OneClock.as_measured(known, found)
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
    of_one_session = math.log1p(_width_pct(found, sessions, new_card=new_card) / 100)
    replicates = len(groups) if new_card else len(sessions)
    # More sessions narrow the share of the screen that is theirs.
    of_sessions = of_one_session * math.sqrt((1 + 1 / replicates) / 2)
    # Small losses add up: what passes stays within the width of one session of the oldest sessions.
    oldest, room = fmean(logs[group[0]] for group in groups), of_one_session - of_sessions
    expected = min(max(expected, oldest - room), oldest + room)
    change, width = math.log(time_us) - expected, of_sessions + error
    too_noisy = error > max(of_one_session, math.log1p(tolerance_pct / 100))
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


def process_spread_pct(timing: Timing) -> float:
    """Return how far a time of another process of the same code may be from this one, in %."""
    return _width_pct(timing, (), new_card=False) + 100 * standard_error(timing.blocks_us) / timing.time_us


def _width_pct(timing: Timing, sessions: Sequence[Session], *, new_card: bool) -> float:
    """Return the width for one session, in %: wider for noisy classes of times, and for a new card."""
    if timing.mode == "host":
        return MACHINE_PCT * (1 + new_card)
    clocks = [timing.sm_clock_mhz, *(session.sm_clock_mhz for session in sessions)]
    highest = max(*clocks, timing.conditions.max_sm_clock_mhz if timing.conditions is not None else 0)
    # A clock that is not known may have been any.
    noisy = timing.mode == "kernels" or not all(mhz >= HELD_BACK * highest > 0 for mhz in clocks)
    return max(SCREEN_PCT, NOISY_PCT * noisy, LOSS_PCT * new_card)


def _not_compared(timing: Timing, known: TimeBaseline, origin: Origin) -> Finding:
    """Say why a time is another quantity than that of the baseline."""
    why = ", ".join(filter(None, [timing.not_captured, timing.not_recorded]))
    now = f"{timing.mode} by {timing.source}" + (f" ({why})" if why else "")
    line = f"the time was taken {now}, the baseline's {known.mode} by {known.source}: not compared"
    _, machine = origin.differences(known.sessions)
    if other := [one for one in machine if one.startswith("allocator")]:
        return Finding(Status.INCONCLUSIVE, f"{line}; {other[0]}")
    if timing.not_captured and known.mode in ("hot", "cold"):
        return Finding(Status.REGRESSED, line)
    if timing.mode != known.mode and not timing.not_captured:
        line = f"{OTHER_CALL}: mode {timing.mode} instead of {known.mode}"
    return Finding(Status.INCONCLUSIVE, line)


def time_line(time: TimeComparison, mode: TimingMode) -> str:
    """Return `49.4 % slower: 66.8 → 99.8 µs (48.8 to 50.0 %; in turn, 2 restarts, old code 1a2b3c4)`."""
    decision = time.decision
    # Logarithms and back leave a difference in the last digits.
    actual, expected = show_pair(float(f"{time.actual_us:.6g}"), float(f"{time.baseline_us:.6g}"))
    slower = decision.change_pct >= 0
    low, high = (decision.low_pct, decision.high_pct) if slower else (-decision.high_pct, -decision.low_pct)
    unit = "µs" if mode == "hot" else f"µs {mode}"
    return (
        f"{abs(decision.change_pct):.1f} % {'slower' if slower else 'faster'}: {expected} → {actual} {unit} "
        f"({low:.1f} to {high:.1f} %; {', '.join((*_how(time), *time.why))})"
    )


def _how(time: TimeComparison) -> Iterator[str]:
    decision, replicate = time.decision, _REPLICATES[time.how]
    left_out = time.how == "screen" and time.stored > decision.replicates
    known = time.stored if left_out else decision.replicates
    ending = "" if known == 1 else "es" if replicate.endswith("s") else "s"
    count = f"{f'{decision.replicates} of ' if left_out else ''}{known} {replicate}{ending}"
    yield f"in turn, {count}, old code {time.against}" if time.how == "in turn" else count
    if left_out and not decision.new_card:
        yield "same card"
    if decision.as_measured:
        yield f"at {time.actual_mhz:.0f} instead of {time.baseline_mhz:.0f} MHz"
    if time.too_noisy:
        yield "noisy"
    if decision.new_card:
        yield "on a card that the baseline has not seen"
