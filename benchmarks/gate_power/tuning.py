"""Search the thresholds that find most without a false alarm, on each half of the samples."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, product
from statistics import fmean
from typing import TYPE_CHECKING

import msgspec

from benchmarks.gate_power import restart_rule, session_rule
from benchmarks.gate_power.verdicts import SLOWER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from benchmarks.gate_power.verdicts import Tally
    from pytest_gpuperf.statistics.decision import Thresholds

STORED = (3, 5)
DRAWS = 2
"""Baselines drawn for each new session, and orders for each series of restarts."""
SESSION_GRID = {"session_sd_pct": (0.25, 0.18, 0.35), "replicated_share": (0.6, 1.0, 0.5)}
"""Values to try for sessions; the shipped thresholds come first and win a tie."""
RESTART_GRID = {
    "restart_sd_pct": (0.2, 0.3, 0.1),
    "restart_df": (2, 4, 1),
    "restart_indifference_pct": (0.15, 0.25, 0.1),
}
CHOICES = tuple(
    dict(zip(grid, values, strict=True))
    for grid in (SESSION_GRID, RESTART_GRID)
    for values in product(*grid.values())
)


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """Result of thresholds on one half, over all draws."""

    false_alarms: int
    """Number of verdicts that call unchanged code slower."""
    found: float
    """Share of slowdowns found, from 0 to 1: mean over the doses."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One choice of thresholds for sessions or for restarts."""

    thresholds: dict[str, float]
    tuning: Score
    held_out: Score


def tried(
    sessions: session_rule.Sessions,
    restarts: restart_rule.Restarts,
    shipped: Thresholds,
    choices: Iterable[Mapping[str, float]] = CHOICES,
) -> list[Tried]:
    """Try choices of thresholds on both halves.

    Args:
        sessions: All sessions.
        restarts: All restarts.
        shipped: Values of all other thresholds.
        choices: Thresholds for sessions first, then those for restarts.
    """

    def by_sessions(new: Sequence[int], thresholds: Thresholds) -> Score:
        return _score([session_rule.judge(sessions, new, stored, DRAWS, thresholds) for stored in STORED])

    def by_restarts(chosen: Sequence[int], thresholds: Thresholds) -> Score:
        return _score([restart_rule.judge(restarts, chosen, DRAWS, thresholds)[0]])

    found = []
    for choice in choices:
        is_for_sessions = choice.keys() == SESSION_GRID.keys()
        score = by_sessions if is_for_sessions else by_restarts
        halves = sessions.halves() if is_for_sessions else restarts.halves()
        on_tuning, on_held_out = (score(half, changed(shipped, choice)) for half in halves)
        found.append(Tried(thresholds=dict(choice), tuning=on_tuning, held_out=on_held_out))
    return found


def best(choices: Iterable[Tried], on: Callable[[Tried], Score]) -> dict[str, float]:
    """Return the thresholds with the fewest false alarms, and of these the ones that find most."""
    chosen: dict[str, float] = {}
    for _, alike in groupby(choices, key=lambda each: tuple(each.thresholds)):
        chosen |= max(alike, key=lambda each: (-on(each).false_alarms, on(each).found)).thresholds
    return chosen


def changed(thresholds: Thresholds, changes: Mapping[str, float]) -> Thresholds:
    """Replace some thresholds."""
    return replace(thresholds, **changes)  # type: ignore[arg-type]  # none of them is `looks`


def _score(tallies: Sequence[Tally]) -> Score:
    found = [tally.verdicts(dose).drawn_share(SLOWER) for tally in tallies for dose in tally.doses]
    return Score(
        false_alarms=sum(tally.verdicts(None).drawn.get(SLOWER, 0) for tally in tallies),
        found=round(fmean(found), 4) if found else 0.0,
    )
