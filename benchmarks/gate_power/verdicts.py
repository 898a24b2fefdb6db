"""Count verdicts, with bounds for the share of slower ones by process and by card."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

RESAMPLES = 2000
"""Choices of units that a bootstrap draws."""
SLOWER, FASTER, INCONCLUSIVE, PASS = "regressed", "improved", "inconclusive", "pass"


def clopper_pearson(found: int, of: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact two-sided bounds of a share.

    Source: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934) 404.

    Args:
        found: Number of successes.
        of: Number of independent trials.
        level: Least chance that the bounds include the true share.

    Returns:
        Lower and upper bound, from 0 to 1; 0 and 1 without trials.
    """
    from scipy.stats import beta

    tail = (1 - level) / 2
    low = float(beta.ppf(tail, found, of - found + 1)) if found else 0.0
    high = float(beta.ppf(1 - tail, found + 1, of - found)) if found < of else 1.0
    return low, high


def bounds_by_unit(units: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return 95 % bounds for the share of slower verdicts in a unit that is not among these.

    A bootstrap resamples the units whole (A. C. Davison and D. V. Hinkley, Bootstrap Methods and their
    Application, 1997, section 3.8): verdicts of a process or of a card share its state. If all verdicts or
    none are slower, it has no spread: then the bounds are exact ones of the number of units. One unit with
    both says nothing.

    Args:
        units: Number of slower verdicts, and of all, in each process or on each card.
    """
    count = len(units)
    slower, of = (sum(column) for column in zip(*units, strict=True)) if count else (0, 0)
    if slower in (0, of):
        return clopper_pearson(count if slower else 0, count)
    if count == 1:
        return 0.0, 1.0
    state, stream = Random(f"{units}").getstate()[1], np.random.RandomState()
    stream.set_state(("MT19937", np.array(state[:-1], np.uint32), state[-1], 0, 0.0))  # as `choices`, faster
    chosen = (stream.random_sample(RESAMPLES * count) * count).astype(int)
    found, each = np.array(units)[chosen].reshape(RESAMPLES, count, 2).sum(axis=1).T
    shares = sorted((found / each).tolist())
    return shares[RESAMPLES // 40], shares[-RESAMPLES // 40 - 1]


class Verdicts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Numbers of each outcome, for verdicts with their own new measurement and for all draws."""

    apart: dict[str, int] = {}
    """One verdict for each new measurement: each kernel in each process or series of restarts."""
    drawn: dict[str, int] = {}
    """All verdicts: the same new measurements against many choices of stored ones, or in many orders."""
    on_cards: list[tuple[int, int]] = []
    """Number of slower verdicts in `drawn`, and of all, on each card."""
    by_process: tuple[float, float] | None = None
    """Bounds for the share of slower verdicts in a process that is not among these; see `bounds_by_unit`."""

    @property
    def count(self) -> int:
        """Return the number of verdicts with their own new measurement."""
        return sum(self.apart.values())

    def found(self, *outcomes: str) -> int:
        """Return the number of verdicts in `apart` with one of these outcomes."""
        return sum(self.apart.get(outcome, 0) for outcome in outcomes)

    def drawn_share(self, *outcomes: str) -> float:
        """Return the share of all draws with one of these outcomes, from 0 to 1."""
        return sum(self.drawn.get(outcome, 0) for outcome in outcomes) / max(1, sum(self.drawn.values()))

    def bounds_by_card(self) -> tuple[float, float]:
        """Return 95 % bounds for the share of slower verdicts on a card that is not among these."""
        return bounds_by_unit(self.on_cards)


class Tally:
    """Counter of a rule's verdicts by kernel, dose and card."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int | None, str, str], tuple[Counter[str], Counter[str]]] = {}

    def add(
        self, kernel: str, dose: int | None, card: str, outcomes: Iterable[str], process: object = ""
    ) -> None:
        """Count the verdicts on one new measurement; the first counts as its own.

        Args:
            kernel: Kernel of the measurement.
            dose: Added work in ‰ of the stored code; None for the same code.
            card: UUID of the GPU.
            outcomes: Outcome with each draw.
            process: The process of the measurement on its card, or the first of several.
        """
        key = (kernel, dose, card, str(process))
        apart, drawn = self._counts.setdefault(key, (Counter(), Counter()))
        for at, outcome in enumerate(outcomes):
            drawn[outcome] += 1
            if not at:
                apart[outcome] += 1

    @classmethod
    def together(cls, tallies: Iterable[Tally]) -> Tally:
        """Merge several tallies."""
        whole = cls()
        for tally in tallies:
            for key, counts in tally._counts.items():
                present = whole._counts.setdefault(key, (Counter(), Counter()))
                for into, more in zip(present, counts, strict=True):
                    into.update(more)
        return whole

    def on(self, cards: Container[str]) -> Tally:
        """Return the verdicts on some cards."""
        some = Tally()
        some._counts = {key: counts for key, counts in self._counts.items() if key[2] in cards}
        return some

    @property
    def cards(self) -> list[str]:
        """Return the cards with verdicts on unchanged code."""
        return sorted({card for _, dose, card, _ in self._counts if dose is None})

    def verdicts(self, dose: int | None, kernel: str = "") -> Verdicts:
        """Return the verdicts on one dose, and on one kernel if named."""
        apart: Counter[str] = Counter()
        drawn: Counter[str] = Counter()
        cards: dict[str, Counter[str]] = {}
        processes: dict[tuple[str, str], Counter[str]] = {}
        for (of, at, card, process), counts in self._counts.items():
            if at == dose and kernel in ("", of):
                apart += counts[0]
                drawn += counts[1]
                cards.setdefault(card, Counter()).update(counts[1])
                processes.setdefault((card, process), Counter()).update(counts[1])
        on_cards, in_processes = (
            [(found[SLOWER], found.total()) for _, found in sorted(units.items())]
            for units in (cards, processes)
        )
        low, high = bounds_by_unit(in_processes)
        return Verdicts(
            dict(sorted(apart.items())),
            dict(sorted(drawn.items())),
            on_cards,
            (round(low, 5), round(high, 5)),
        )

    @property
    def doses(self) -> list[int]:
        """Return the counted doses."""
        return sorted({dose for _, dose, *_ in self._counts if dose is not None})

    @property
    def kernels(self) -> list[str]:
        """Return the counted kernels, in order of their first verdict."""
        return list(dict.fromkeys(kernel for kernel, *_ in self._counts))
