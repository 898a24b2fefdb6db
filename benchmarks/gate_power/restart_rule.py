"""Judge sampled restarts by the plugin's sequential rule, in many orders."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING

from benchmarks.gate_power.kernels import IN_STEPS
from benchmarks.gate_power.verdicts import Tally
from pytest_gpuperf.statistics.decision import Outcome
from pytest_gpuperf.statistics.sequential import decide_restarts, next_look

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.gate_power.samples import RestartSample
    from pytest_gpuperf.statistics.decision import Decision, Thresholds

    Couple = tuple[RestartSample, RestartSample]
    """Two restarts: in the first the old code goes first, in the second the new code."""


class Restarts:
    """Sampled restarts by comparison: kernel, dose of the old code, dose of the new code.

    Restarts on several cards count together, since both sides of one are on one card. An even number and the
    next form a pair, in which each side goes first once. A restart without partner is left out.
    """

    def __init__(self, lines: Iterable[RestartSample]) -> None:
        lines = list(lines)
        found = {line.restart for line in lines}
        self.numbers = sorted(restart for restart in found if _other(restart) in found)
        self.lines: dict[tuple[str, int, int], dict[int, RestartSample]] = defaultdict(dict)
        for line in lines:
            if _other(line.restart) in found:
                self.lines[line.kernel, line.old, line.new][line.restart] = line
        self.kernels = sorted({kernel for kernel, *_ in self.lines})

    def halves(self) -> tuple[list[int], list[int]]:
        """Return the restarts for tuning and those held out."""
        numbers = self.numbers
        return [*numbers[::4], *numbers[1::4]], [*numbers[2::4], *numbers[3::4]]


def judge(
    restarts: Restarts, chosen: Sequence[int], most: int, thresholds: Thresholds
) -> tuple[Tally, list[float]]:
    """Judge each comparison as in a run, which restarts until it can decide.

    Args:
        restarts: All restarts.
        chosen: Restarts to use.
        most: Number of orders to draw for each series.
        thresholds: Thresholds of the rule.

    Returns:
        The verdicts, and the seconds of each.
    """
    counted = Tally()
    seconds = []
    wanted = set(chosen)
    for (kernel, old, new), lines in restarts.lines.items():
        usable = [
            (line, lines[restart + 1])
            for restart, line in sorted(lines.items())
            if not restart % 2 and {restart, restart + 1} <= wanted & lines.keys()
        ]
        rng = Random(f"{kernel} {old} {new}")
        dose = None if old == new else new
        if dose and kernel in IN_STEPS:
            continue
        for series in _apart(usable, thresholds.looks, rng):
            orders = [_in_some_order(series, rng) for _ in range(most)]
            outcomes = []
            for order in orders:
                decision, used = _sequential(order, thresholds, len(restarts.kernels))
                outcomes.append(decision.outcome.value)
                seconds.append(sum(line.seconds for line in order[:used]))
            counted.add(kernel, dose, outcomes)
    return counted, seconds


def _apart(usable: Sequence[Couple], looks: Sequence[int], rng: Random) -> list[list[Couple]]:
    """Split restarts into series that share none, each with the largest number that a comparison may take.

    With fewer restarts, return one series of all; none if they do not last to the first look.
    """
    order = rng.sample(usable, len(usable))
    shortest, longest = looks[0] // 2, looks[-1] // 2
    if len(order) < longest:
        return [order] if len(order) >= shortest else []
    return [order[at : at + longest] for at in range(0, len(order) - longest + 1, longest)]


def _in_some_order(series: Sequence[Couple], rng: Random) -> list[RestartSample]:
    """Return the restarts in a possible order of a run: sides go first in turn, and a random side begins."""
    first = rng.randrange(2)
    order = rng.sample(series, len(series))
    return [line for couple in order for line in (couple[first], couple[1 - first])]


def _other(restart: int) -> int:
    """Return the restart in which the other side goes first."""
    return restart + 1 - 2 * (restart % 2)


def _sequential(
    order: Sequence[RestartSample], thresholds: Thresholds, comparisons: int
) -> tuple[Decision, int]:
    """Return the decision of a run with restarts in this order, and the number it takes."""
    ratios, raw = [line.log_ratio for line in order], [line.raw_log_ratio for line in order]
    new_first = [bool(line.restart % 2) for line in order]
    used = 0
    while True:
        look = next_look(used, thresholds)
        used = min(look or len(ratios), len(ratios))
        final = next_look(used, thresholds) is None or used == len(ratios)
        decision = decide_restarts(
            ratios[:used],
            thresholds,
            comparisons,
            final=final,
            raw=raw[:used],
            new_first=new_first[:used],
        )
        if final or decision.outcome is not Outcome.INCONCLUSIVE:
            return decision, used
