"""Pictures of times: sessions with the new one, restarts in turn, and blocks next to the SM clock."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.features.page.picture import Axis, Band, Line, Mark, Picture, Points, Tone, rounded
from pytest_gpuperf.records.baseline import card_of
from pytest_gpuperf.report.show import show_change, show_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.judge.screen import TimeComparison
    from pytest_gpuperf.records import AgainstTiming, Timing
    from pytest_gpuperf.records.baseline import RunNote, Session, TimeBaseline

LEAST_RANGE = 0.01
"""Smallest range of a time axis, as a share of its values, so that noise does not look like a change."""
_FLAT = 5e-4
"""Range of a clock, as a share, below which it is drawn as one level line."""
_CARDS: tuple[Tone, ...] = ("before", "third", "second", "quiet")
_TICKS = 10


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
    kept = at_one_clock or known.sessions
    dots = [_dot(session, at_one_clock=bool(at_one_clock)) for session in kept]
    several = "" if len(dots) == 1 else "s"
    message = f"{len(dots)} stored session{several}, {show_time(dots[0].time_us)} in the first"
    cards = [card_of(session, runs) for session in kept]
    marks = _by_card(dots, cards)
    seen = [value for dot in dots for value in (dot.low_us, dot.high_us)]
    count = len(dots)
    if comparison is not None:
        count += 1
        new, values = _new(comparison, count)
        expected = _level(comparison.baseline_us, _right(count), "expected")
        marks = [expected, *marks, new]
        seen += [*values, expected.y[0]]
        message += f"; {new.tips[0]}"
    where = f"at {at_mhz:.0f} MHz " if at_mhz else ""
    return Picture(
        title="Time of each session",
        description=f"{message}.",
        x=Axis(label="session, oldest first", low=0.5, high=_right(count), ticks=_whole(count)),
        y=_with_least_range(f"time {where}(µs)", seen),
        marks=tuple(marks),
    )


class _Dot(NamedTuple):
    """One stored session."""

    run: str
    time_us: float
    low_us: float
    high_us: float


def _dot(session: Session, *, at_one_clock: bool) -> _Dot:
    if at_one_clock:
        # The spread of blocks at many clocks says nothing about a time at one clock.
        time_us, half_us = session.normalised_us, 0.0
    else:
        time_us, half_us = session.time_us, session.time_us * session.spread_pct / 200
    return _Dot(session.run, time_us, time_us - half_us, time_us + half_us)


def _right(count: int) -> float:
    """Return the right end of the axis: the names of lines need room behind the last session."""
    return round(1.4 * count + 0.5, 2)


def _level(value: float, right: float, name: str) -> Line:
    y = float(f"{value:.5g}")
    return Line(x=(0.5, right), y=(y, y), name=name, beside=True, tone="quiet", dashed=True)


def _new(comparison: TimeComparison, place: int) -> tuple[Points, list[float]]:
    """Return the mark of the new time, and its values."""
    decision, expected = comparison.decision, comparison.baseline_us
    ends = [expected * (1 + change / 100) for change in (decision.low_pct, decision.high_pct)]
    values = [comparison.actual_us, *ends]
    y, low, high = rounded(values)
    change = show_change(decision)
    tone: Tone = "bad" if comparison.slower else "good" if comparison.faster else "now"
    tip = f"this run: {show_time(comparison.actual_us)}, {change}"
    mark = Points(x=(place,), y=(y,), low=(low,), high=(high,), name="this run", tone=tone, tips=(tip,))
    return mark, values


def _by_card(dots: Sequence[_Dot], cards: Sequence[str]) -> list[Mark]:
    every = list(dict.fromkeys(cards))
    spread = any(dot.low_us < dot.high_us for dot in dots)
    y = rounded(dot.time_us for dot in dots)
    low, high = rounded(dot.low_us for dot in dots), rounded(dot.high_us for dot in dots)
    marks: list[Mark] = []
    for number, card in enumerate(every):
        own = [index for index, one in enumerate(cards) if one == card]
        marks.append(
            Points(
                x=tuple(index + 1 for index in own),
                y=tuple(y[index] for index in own),
                low=tuple(low[index] for index in own) if spread else (),
                high=tuple(high[index] for index in own) if spread else (),
                name=f"card {card[:8]}" if len(every) > 1 and card else "stored sessions",
                tone=_CARDS[min(number, len(_CARDS) - 1)],
                tips=tuple(f"{dots[index].run}: {show_time(dots[index].time_us)}" for index in own),
            )
        )
    return marks


def restarts(against: AgainstTiming, comparison: TimeComparison) -> Picture:
    """Draw the change of each restart of `--gpuperf-against`, in %.

    Args:
        against: The ratios.
        comparison: The change that they were judged as.
    """
    changes = [100 * math.expm1(ratio) for ratio in against.log_ratios]
    decision = comparison.decision
    first = against.new_first or (True,) * len(changes)
    marks: list[Mark] = [
        Band(low=round(decision.low_pct, 3), high=round(decision.high_pct, 3), name="interval of the change"),
    ]
    for new_first, name in ((True, "new code first"), (False, "old code first")):
        own = [index for index, one in enumerate(first) if one is new_first]
        if own:
            marks.append(
                Points(
                    x=tuple(index + 1 for index in own),
                    y=rounded(changes[index] for index in own),
                    name=name,
                    tone="now" if new_first else "before",
                )
            )
    shown = show_change(decision)
    return Picture(
        title=f"Change against {against.ref} in each restart",
        description=f"{shown} over {len(changes)} restarts against {against.ref}.",
        x=Axis(label="restart", low=0.5, high=len(changes) + 0.5, ticks=_whole(len(changes))),
        y=Axis(label="change of the time (%)"),
        marks=(Line(x=(0.5, len(changes) + 0.5), y=(0.0, 0.0), tone="quiet"), *marks),
    )


def blocks(timing: Timing) -> Picture:
    """Draw the time of each block next to the SM clock.

    Both axes span the same share of their values, so a time that a clock explains is its mirror image.
    """
    times, clocks = timing.blocks_us, timing.blocks_mhz if timing.sm_clock_mhz else ()
    marks: list[Mark] = [Line(y=rounded(times), name="time", tone="now", dots=len(times) <= 40)]
    share = max(_share(times), _share(clocks), LEAST_RANGE)
    right = None
    message = f"{len(times)} blocks from {show_time(min(times))} to {show_time(max(times))}"
    if clocks:
        flat = _share(clocks) < _FLAT
        mean = round(fmean(clocks), 1)
        marks.append(
            Line(
                x=(1.0, float(len(clocks))) if flat else (),
                y=(mean, mean) if flat else rounded(clocks),
                name="SM clock",
                tone="second",
                dashed=True,
                right=True,
            )
        )
        right = _around("SM clock (MHz)", clocks, share)
        message += f"; the SM clock is {min(clocks):.0f} to {max(clocks):.0f} MHz"
    return Picture(
        title="Blocks of this run",
        description=f"{message}.",
        x=Axis(label="block"),
        y=_around("time (µs)", times, share),
        right=right,
        marks=tuple(marks),
    )


def _share(values: Sequence[float]) -> float:
    middle = abs(max(values) + min(values)) / 2 if values else 0.0
    return (max(values) - min(values)) / middle if middle else 0.0


def _around(label: str, values: Sequence[float], share: float) -> Axis:
    """Return an axis that spans a share of the middle of its values, and a little more."""
    middle, half = (max(values) + min(values)) / 2, 0.55 * share
    if not middle or half >= 1:  # cold blocks may be around 0
        return Axis(label=label)
    low, high = rounded((middle - abs(middle) * half, middle + abs(middle) * half))
    return Axis(label=label, low=low, high=high)


def _with_least_range(label: str, values: Sequence[float]) -> Axis:
    if _share(values) >= LEAST_RANGE:
        return Axis(label=label)
    return _around(label, values, LEAST_RANGE)


def _whole(count: int) -> tuple[float, ...]:
    """Return whole numbers from 1 for ticks."""
    return tuple(float(number) for number in range(1, count + 1, math.ceil(count / _TICKS)))
