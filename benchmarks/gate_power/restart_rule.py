"""Judge sampled restarts by the plugin's sequential rule."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING

from benchmarks.gate_power.kernels import BY_HOST, IN_STEPS
from benchmarks.gate_power.verdicts import INCONCLUSIVE, Tally
from pytest_gpuperf.statistics.decision import Outcome
from pytest_gpuperf.statistics.sequential import decide_restarts
from pytest_gpuperf.statistics.thresholds import LOOKS

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from benchmarks.gate_power.samples import RestartSample
    from pytest_gpuperf.statistics.decision import Decision

    Couple = tuple[RestartSample, RestartSample]
    """Two restarts: in the first the old code goes first, in the second the new code."""


class Restarts:
    """Sampled restarts by comparison: kernel, dose of the old code, dose of the new code.

    An even number and the next form a couple, in which each side goes first once. A restart without partner
    is left out.

    Args:
        lines: All restarts.
    """

    def __init__(self, lines: Iterable[RestartSample]) -> None:
        lines = list(lines)
        found = {line.restart for line in lines}
        self.numbers = sorted(restart for restart in found if _other(restart) in found)
        self.lines: dict[tuple[str, int, int], dict[int, RestartSample]] = defaultdict(dict)
        self.cards: dict[str, list[int]] = defaultdict(list)
        """Restarts of each card."""
        for line in sorted(lines, key=lambda line: line.restart):
            if _other(line.restart) in found:
                self.lines[line.kernel, line.old, line.new][line.restart] = line
                if line.restart not in self.cards[line.card]:
                    self.cards[line.card].append(line.restart)
        self.kernels = sorted({kernel for kernel, *_ in self.lines})


def judge(restarts: Restarts, most: int, kernels: Container[str] | None = None) -> tuple[Tally, list[float]]:
    """Judge each comparison as in a run, which restarts on one card until it can decide.

    Restarts of unchanged code are judged in the order of their measurement, the next verdict by those that
    follow: the last one of a card may be cut off, and is not decided. Slower code needs whole series, which
    would else seem to be missed.

    Args:
        restarts: All restarts.
        most: Number of orders to draw for each series.
        kernels: Kernels to judge; all by default.

    Returns:
        The verdicts, and the seconds of each.
    """
    counted = Tally()
    seconds = []
    for (kernel, old, new), lines in restarts.lines.items():
        rng = Random(f"{kernel} {old} {new}")
        dose = None if old == new else new
        if (dose and kernel in IN_STEPS) or (kernels is not None and kernel not in kernels):
            continue
        usable = [
            (
                card,
                [(lines[at], lines[at + 1]) for at in numbers if not at % 2 and {at, at + 1} <= lines.keys()],
            )
            for card, numbers in restarts.cards.items()
        ]
        if dose is None:
            for card, couples in usable:
                for taken, outcome in _in_a_row(couples):
                    if outcome != INCONCLUSIVE:
                        seconds.append(sum(line.seconds for line in taken))
                    counted.add(kernel, None, card, [outcome], taken[0].restart)
            continue
        apart = [(card, each) for card, couples in usable for each in _apart(couples, LOOKS[-1], rng)]
        for card, series in apart:
            orders = [_in_some_order(series, rng) for _ in range(most)]
            outcomes = []
            for order in orders:
                decision, used = _sequential(order)
                outcomes.append(decision.outcome.value)
                seconds.append(sum(line.seconds for line in order[:used]))
            counted.add(kernel, dose, card, outcomes, series[0][0].restart)
    return counted, seconds


def _in_a_row(couples: Sequence[Couple]) -> Iterator[tuple[list[RestartSample], str]]:
    """Yield one verdict after the other: the restarts that it takes, and its outcome."""
    at = 0
    while at < len(couples):
        order = [line for couple in couples[at : at + LOOKS[-1] // 2] for line in couple]
        decision, used = _sequential(order)
        yield order[:used], decision.outcome.value
        at += used // 2


def _apart(usable: Sequence[Couple], restarts: int, rng: Random) -> list[list[Couple]]:
    """Split restarts of a card into series that share none, each as long as the longest comparison."""
    order, longest = rng.sample(usable, len(usable)), restarts // 2
    return [order[at : at + longest] for at in range(0, len(order) - longest + 1, longest)]


def _in_some_order(series: Sequence[Couple], rng: Random) -> list[RestartSample]:
    """Return the restarts in a possible order of a run: sides go first in turn, and a random side begins."""
    first = rng.randrange(2)
    order = rng.sample(series, len(series))
    return [line for couple in order for line in (couple[first], couple[1 - first])]


def _other(restart: int) -> int:
    """Return the restart in which the other side goes first."""
    return restart + 1 - 2 * (restart % 2)


def _sequential(order: Sequence[RestartSample]) -> tuple[Decision, int]:
    """Return the decision of a run with restarts in this order, and the number it takes.

    It is inconclusive if there are too few restarts.
    """
    ratios, raw = [line.log_ratio for line in order], [line.raw_log_ratio for line in order]
    new_first = [bool(line.restart % 2) for line in order]
    used = 0
    while True:
        used = min(_next_look(used) or len(ratios), len(ratios))
        final = _next_look(used) is None
        decision = decide_restarts(
            ratios[:used],
            final=final,
            raw=raw[:used],
            new_first=new_first[:used],
            by_host=order[0].kernel in BY_HOST,
        )
        if final or used == len(ratios) or decision.outcome is not Outcome.INCONCLUSIVE:
            return decision, used


def _next_look(replicates: int) -> int | None:
    """Return the number of restarts at which to decide next; None after the last look."""
    return next((look for look in LOOKS if look > replicates), None)
