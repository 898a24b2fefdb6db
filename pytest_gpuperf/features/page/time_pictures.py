"""Pictures of times: sessions with the new one, and blocks next to the SM clock."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_gpuperf.features.page.picture import Axis, Mark, Numbers, Picture, Points, Polyline, Tone
from pytest_gpuperf.records.baseline import card_of
from pytest_gpuperf.report.number_format import count, show_change, show_time
from pytest_gpuperf.statistics.decision import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.judge.result import TimeComparison
    from pytest_gpuperf.records import Timing
    from pytest_gpuperf.records.baseline import RunNote, TimeBaseline

LEAST_RANGE = 0.01
"""Smallest range of a time axis, as a share of its values, so that noise does not look like a change."""
_CARDS: tuple[Tone, ...] = ("before", "third", "second", "quiet")
_TICKS = 10
_DOTS = 40
"""Largest number of blocks that are marked one by one."""


def sessions(known: TimeBaseline, runs: Mapping[str, RunNote], comparison: TimeComparison | None) -> Picture:
    """Draw the time of each stored session, the oldest first, and the new one with its interval.

    Args:
        known: The stored sessions.
        runs: Origin of each session, by run id: sessions of different cards have different colours.
        comparison: The new time judged by the sessions; None if the two cannot be compared.
    """
    at_mhz = comparison.at_mhz if comparison is not None else 0.0
    # Sessions without a clock model are as measured, also if the new time has a model.
    at_one_clock = [session for session in known.sessions if at_mhz and session.normalised_us]
    stored = at_one_clock or known.sessions
    times = [session.normalised_us if at_one_clock else session.time_us for session in stored]
    # The spread of blocks at many clocks says nothing about a time at one clock.
    halves = [0.0 if at_one_clock else session.spread_pct / 200 for session in stored]
    cards = [card_of(session, runs) for session in stored]
    marks: list[Mark] = []
    for number, card in enumerate(dict.fromkeys(cards)):
        own = [index for index, one in enumerate(cards) if one == card]
        marks.append(
            Points(
                x=tuple(index + 1.0 for index in own),
                y=tuple(times[index] for index in own),
                low=tuple(times[index] * (1 - halves[index]) for index in own),
                high=tuple(times[index] * (1 + halves[index]) for index in own),
                name=f"card {card[:8]}" if len(set(cards)) > 1 and card else "stored sessions",
                tone=_CARDS[min(number, len(_CARDS) - 1)],
                tips=tuple(f"{stored[index].run}: {show_time(times[index])}" for index in own),
            )
        )
    message = f"{count(len(stored), 'stored session')}, {show_time(times[0])} in the first"
    number = len(stored) + (comparison is not None)
    # The names of lines need room behind the last session.
    right = 1.4 * number + 0.5
    if comparison is not None:
        new, expected = _new(comparison, number), comparison.baseline_us
        level = Polyline(
            x=(0.5, right), y=(expected,) * 2, name="expected", beside=True, tone="quiet", dashed=True
        )
        marks = [level, *marks, new]
        message += f"; {new.tips[0]}"
    return Picture(
        title="Time of each session",
        description=f"{message}.",
        x=Axis(label="session, oldest first", low=0.5, high=right, ticks=_whole(number)),
        y=time_axis(f"time {f'at {at_mhz:.0f} MHz ' if at_mhz else ''}(µs)", marks),
        marks=tuple(marks),
    )


def _new(comparison: TimeComparison, place: int) -> Points:
    """Return the mark of the new time."""
    decision = comparison.decision
    low, high = (
        comparison.baseline_us * (1 + change / 100) for change in (decision.low_pct, decision.high_pct)
    )
    tones: dict[Outcome, Tone] = {Outcome.REGRESSED: "bad", Outcome.IMPROVED: "good"}
    tone = tones.get(decision.outcome, "now")
    tip = f"this run: {show_time(comparison.actual_us)}, {show_change(decision)}"
    y = (comparison.actual_us,)
    return Points(x=(place,), y=y, low=(low,), high=(high,), name="this run", tone=tone, tips=(tip,))


def blocks(timing: Timing) -> Picture:
    """Draw the time of each block next to the SM clock, both in % of their means.

    A time that a clock explains is its mirror image.
    """
    times, clocks = timing.blocks_us, timing.blocks_mhz if timing.sm_clock_mhz else ()
    marks: list[Mark] = [_deviations(times, "time", "now")]
    message = f"{len(times)} blocks from {show_time(min(times))} to {show_time(max(times))}"
    if clocks:
        marks.append(_deviations(clocks, "SM clock", "second"))
        message += f"; the SM clock is {min(clocks):.0f} to {max(clocks):.0f} MHz"
    most = max(100 * LEAST_RANGE / 2, *(abs(value) for mark in marks for value in mark.y))  # type: ignore[union-attr]
    return Picture(
        title="Blocks of this run",
        description=f"{message}.",
        x=Axis(label="block"),
        y=Axis(label="difference from the mean (%)", low=-1.1 * most, high=1.1 * most),
        marks=tuple(marks),
        notes=(message,),
    )


def _deviations(values: Sequence[float], name: str, tone: Tone) -> Polyline:
    mean = fmean(values) or 1.0
    return Polyline(
        x=tuple(map(float, range(1, len(values) + 1))),
        y=tuple(100 * (value / mean - 1) for value in values),
        name=name,
        tone=tone,
        dashed=name != "time",
        dots=len(values) <= _DOTS,
    )


def time_axis(label: str, marks: Sequence[Mark]) -> Axis:
    """Return an axis of times that spans at least `LEAST_RANGE` of the largest in the marks."""
    values: list[float] = []
    for mark in marks:
        if isinstance(mark, (Points, Polyline)):
            ends: Numbers = (*mark.low, *mark.high) if isinstance(mark, Points) else ()
            values += (*mark.y, *ends)
    low, high = min(values), max(values)
    missing = (LEAST_RANGE * high - (high - low)) / 2
    return Axis(label=label, low=low - missing, high=high + missing) if missing > 0 else Axis(label=label)


def _whole(last: int) -> Numbers:
    """Return whole numbers from 1 for ticks."""
    return tuple(map(float, range(1, last + 1, math.ceil(last / _TICKS))))
