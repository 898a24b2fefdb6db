"""The paired mode on sampled restarts: the plugin's own sequential rule, with restarts in many orders."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING

from benchmarks.gate_power.verdicts import Tally
from pytest_gpuperf.verdict.decision import Outcome
from pytest_gpuperf.verdict.paired import decide_paired, next_look

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.gate_power.samples import Paired
    from pytest_gpuperf.verdict.decision import Decision, Thresholds


class Restarts:
    """Sampled restarts by comparison: kernel, dose of the old code, dose of the new code.

    Restarts of several cards count together: both sides of one are on one card.
    """

    def __init__(self, lines: Iterable[Paired]) -> None:
        self.lines: dict[tuple[str, int, int], dict[int, Paired]] = defaultdict(dict)
        for line in lines:
            self.lines[line.kernel, line.old, line.new][line.restart] = line
        self.kernels = sorted({kernel for kernel, *_ in self.lines})
        self.numbers = sorted({restart for lines in self.lines.values() for restart in lines})

    def halves(self) -> tuple[list[int], list[int]]:
        """Restarts for tuning, and held out."""
        return self.numbers[::2], self.numbers[1::2]


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
        usable = [line for restart, line in sorted(lines.items()) if restart in wanted]
        rng = Random(f"{kernel} {old} {new}")
        dose = None if old == new else new
        for series in _apart(usable, thresholds.looks, rng):
            orders = [series, *(rng.sample(series, len(series)) for _ in range(most - 1))]
            outcomes = []
            for order in orders:
                decision, used = _sequential(order, thresholds, len(restarts.kernels))
                outcomes.append(decision.outcome.value)
                seconds.append(sum(line.seconds for line in order[:used]))
            counted.add(kernel, dose, outcomes)
    return counted, seconds


def _apart(usable: Sequence[Paired], looks: Sequence[int], rng: Random) -> list[list[Paired]]:
    """Series of as many restarts as a comparison may take, no restart in two of them.

    Where there are fewer, one series of all; none where they do not even last to the first look.
    """
    order = rng.sample(usable, len(usable))
    longest = looks[-1]
    if len(order) < longest:
        return [order] if len(order) >= looks[0] else []
    return [order[at : at + longest] for at in range(0, len(order) - longest + 1, longest)]


def _sequential(order: Sequence[Paired], thresholds: Thresholds, comparisons: int) -> tuple[Decision, int]:
    """The decision of a run that takes restarts in this order, and how many it takes."""
    ratios = [line.log_ratio for line in order]
    used = 0
    while True:
        look = next_look(used, thresholds)
        used = min(look or len(ratios), len(ratios))
        final = next_look(used, thresholds) is None or used == len(ratios)
        decision = decide_paired(ratios[:used], thresholds, comparisons, final=final)
        if final or decision.outcome is not Outcome.INCONCLUSIVE:
            return decision, used
