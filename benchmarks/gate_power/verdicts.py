"""Count verdicts, with bounds for the share of each by verdict and by card."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

RESAMPLES = 2000
"""Choices of cards that a bootstrap draws."""
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


class Verdicts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Numbers of each outcome, for verdicts with their own new measurement and for all draws."""

    apart: dict[str, int] = {}
    """One verdict for each new measurement: each kernel in each process or series of restarts."""
    drawn: dict[str, int] = {}
    """All verdicts: the same new measurements against many choices of stored ones, or in many orders."""
    on_cards: list[tuple[int, int]] = []
    """Number of slower verdicts in `drawn`, and of all, on each card."""

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

    def bounds(self, *outcomes: str) -> tuple[float, float]:
        """Return the Clopper-Pearson bounds for the share of these outcomes in `apart`."""
        return clopper_pearson(self.found(*outcomes), self.count)

    def bounds_by_card(self) -> tuple[float, float]:
        """Return 95 % bounds for the share of slower verdicts on a card that is not among these.

        A bootstrap resamples the cards whole (A. C. Davison and D. V. Hinkley, Bootstrap Methods and their
        Application, 1997, section 3.8): verdicts of a card share its processes. If all verdicts or none are
        slower, it has no spread: then the bounds are exact ones of the number of cards.
        """
        cards = len(self.on_cards)
        slower, of = (sum(column) for column in zip(*self.on_cards, strict=True)) if cards else (0, 0)
        if slower in (0, of):
            return clopper_pearson(cards if slower else 0, cards)
        rng = Random(f"{self.on_cards}")
        shares = []
        for _ in range(RESAMPLES):
            chosen = rng.choices(self.on_cards, k=cards)
            shares.append(sum(found for found, _ in chosen) / sum(count for _, count in chosen))
        shares.sort()
        return shares[RESAMPLES // 40], shares[-RESAMPLES // 40 - 1]


class Tally:
    """Counter of a rule's verdicts by kernel, dose and card."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int | None, str], tuple[Counter[str], Counter[str]]] = {}

    def add(self, kernel: str, dose: int | None, card: str, outcomes: Iterable[str]) -> None:
        """Count the verdicts on one new measurement; the first counts as its own.

        Args:
            kernel: Kernel of the measurement.
            dose: Added work in ‰ of the stored code; None for the same code.
            card: UUID of the GPU.
            outcomes: Outcome with each draw.
        """
        apart, drawn = self._counts.setdefault((kernel, dose, card), (Counter(), Counter()))
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

    def verdicts(self, dose: int | None, kernel: str = "") -> Verdicts:
        """Return the verdicts on one dose, and on one kernel if named."""
        apart: Counter[str] = Counter()
        drawn: Counter[str] = Counter()
        cards: dict[str, Counter[str]] = {}
        for (of, at, card), counts in self._counts.items():
            if at == dose and kernel in ("", of):
                apart += counts[0]
                drawn += counts[1]
                cards.setdefault(card, Counter()).update(counts[1])
        on_cards = [(found[SLOWER], found.total()) for _, found in sorted(cards.items())]
        return Verdicts(dict(sorted(apart.items())), dict(sorted(drawn.items())), on_cards)

    @property
    def doses(self) -> list[int]:
        """Return the counted doses."""
        return sorted({dose for _, dose, _ in self._counts if dose is not None})

    @property
    def kernels(self) -> list[str]:
        """Return the counted kernels, in order of their first verdict."""
        return list(dict.fromkeys(kernel for kernel, *_ in self._counts))
