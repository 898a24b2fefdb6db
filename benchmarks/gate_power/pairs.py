"""The paired mode on sampled restarts: the plugin's own sequential rule, with restarts in many orders."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING

from benchmarks.gate_power.verdicts import Tally
from pytest_gpuperf.statistics.decision import Outcome
from pytest_gpuperf.statistics.sequential import decide_paired, next_look

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.gate_power.samples import Paired
    from pytest_gpuperf.statistics.decision import Decision, Thresholds

    Couple = tuple[Paired, Paired]
    """Two restarts; in the first of them the old code goes ahead, in the second the new code."""


class Restarts:
    """Sampled restarts by comparison: kernel, dose of the old code, dose of the new code.

    Restarts of several cards count together: both sides of one are on one card. An even number and the one
    after it belong together, as each side goes ahead in one of the two; one without the other is left out.
    """

    def __init__(self, lines: Iterable[Paired]) -> None:
        lines = list(lines)
        found = {line.restart for line in lines}
        self.numbers = sorted(restart for restart in found if _other(restart) in found)
        self.lines: dict[tuple[str, int, int], dict[int, Paired]] = defaultdict(dict)
        for line in lines:
            if _other(line.restart) in found:
                self.lines[line.kernel, line.old, line.new][line.restart] = line
        self.kernels = sorted({kernel for kernel, *_ in self.lines})

    def halves(self) -> tuple[list[int], list[int]]:
        """Restarts for tuning, and held out."""
        numbers = self.numbers
        return [*numbers[::4], *numbers[1::4]], [*numbers[2::4], *numbers[3::4]]


def judge(
    restarts: Restarts, chosen: Sequence[int], most: int, thresholds: Thresholds
) -> tuple[Tally, list[float]]:
    """Judge each comparison as a run would that restarts until it can tell.

    Args:
        restarts: All that there are.
        chosen: Those that may be used.
        most: Orders to draw for each comparison, those that share no restart first.
        thresholds: What counts.

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
    """Series of as many restarts as a comparison may take, no restart in two of them.

    Where there are fewer, one series of all; none where they do not even last to the first look.
    """
    order = rng.sample(usable, len(usable))
    shortest, longest = looks[0] // 2, looks[-1] // 2
    if len(order) < longest:
        return [order] if len(order) >= shortest else []
    return [order[at : at + longest] for at in range(0, len(order) - longest + 1, longest)]


def _in_some_order(series: Sequence[Couple], rng: Random) -> list[Paired]:
    """As a run may meet them: the sides go ahead in turn, and which of them begins is drawn."""
    first = rng.randrange(2)
    order = rng.sample(series, len(series))
    return [line for couple in order for line in (couple[first], couple[1 - first])]


def _other(restart: int) -> int:
    """The restart in which the other side goes ahead."""
    return restart + 1 - 2 * (restart % 2)


def _sequential(order: Sequence[Paired], thresholds: Thresholds, comparisons: int) -> tuple[Decision, int]:
    """The decision of a run that takes restarts in this order, and how many it takes."""
    ratios, raw = [line.log_ratio for line in order], [line.raw_log_ratio for line in order]
    new_first = [bool(line.restart % 2) for line in order]
    used = 0
    while True:
        look = next_look(used, thresholds)
        used = min(look or len(ratios), len(ratios))
        final = next_look(used, thresholds) is None or used == len(ratios)
        decision = decide_paired(
            ratios[:used],
            thresholds,
            comparisons,
            final=final,
            raw=raw[:used],
            new_first=new_first[:used],
        )
        if final or decision.outcome is not Outcome.INCONCLUSIVE:
            return decision, used
