"""Verdicts counted, with exact bounds for the share of each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

SLOWER, FASTER, INCONCLUSIVE, PASS = "regressed", "improved", "inconclusive", "pass"


def clopper_pearson(found: int, of: int, level: float = 0.95) -> tuple[float, float]:
    """Exact bounds of a share, two-sided.

    Source: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934) 404.

    Args:
        found: How many.
        of: Of how many independent ones.
        level: Chance that the bounds hold the true share, at least.

    Returns:
        Lower and upper bound, from 0 to 1; 0 and 1 where there are none.
    """
    from scipy.stats import beta

    tail = (1 - level) / 2
    low = float(beta.ppf(tail, found, of - found + 1)) if found else 0.0
    high = float(beta.ppf(1 - tail, found + 1, of - found)) if found < of else 1.0
    return low, high


class Verdicts(msgspec.Struct, frozen=True, omit_defaults=True):
    """How often each outcome came, of verdicts that share nothing new and of all that were drawn."""

    apart: dict[str, int] = {}
    """One verdict for each new measurement: of each kernel, in each process or series of restarts."""
    drawn: dict[str, int] = {}
    """All: the same new measurements beside many choices of stored ones, or in many orders."""

    @property
    def count(self) -> int:
        """Verdicts with a new measurement of their own."""
        return sum(self.apart.values())

    def found(self, *outcomes: str) -> int:
        """How many of `apart` are one of these."""
        return sum(self.apart.get(outcome, 0) for outcome in outcomes)

    def drawn_share(self, *outcomes: str) -> float:
        """Share of all draws that are one of these, from 0 to 1."""
        return sum(self.drawn.get(outcome, 0) for outcome in outcomes) / max(1, sum(self.drawn.values()))

    def bounds(self, *outcomes: str) -> tuple[float, float]:
        """Clopper and Pearson's for the share of `apart` that is one of these."""
        return clopper_pearson(self.found(*outcomes), self.count)


class Tally:
    """Counts verdicts of a rule by kernel and dose."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int | None], tuple[Counter[str], Counter[str]]] = {}

    def add(self, kernel: str, dose: int | None, outcomes: Iterable[str]) -> None:
        """Count the verdicts on one new measurement, the first for itself.

        Args:
            kernel: Of the measurement.
            dose: Per mille that it does more than what is stored; None where both are of the same code.
            outcomes: With each draw.
        """
        apart, drawn = self._counts.setdefault((kernel, dose), (Counter(), Counter()))
        for at, outcome in enumerate(outcomes):
            drawn[outcome] += 1
            if not at:
                apart[outcome] += 1

    @classmethod
    def together(cls, tallies: Iterable[Tally]) -> Tally:
        """One tally of several."""
        whole = cls()
        for tally in tallies:
            for key, counts in tally._counts.items():
                present = whole._counts.setdefault(key, (Counter(), Counter()))
                for into, more in zip(present, counts, strict=True):
                    into.update(more)
        return whole

    def verdicts(self, dose: int | None, kernel: str = "") -> Verdicts:
        """Of one dose, and of one kernel where one is named."""
        apart: Counter[str] = Counter()
        drawn: Counter[str] = Counter()
        for (of, at), counts in self._counts.items():
            if at == dose and kernel in ("", of):
                apart += counts[0]
                drawn += counts[1]
        return Verdicts(dict(sorted(apart.items())), dict(sorted(drawn.items())))

    @property
    def doses(self) -> list[int]:
        """Those that were counted."""
        return sorted({dose for _, dose in self._counts if dose is not None})

    @property
    def kernels(self) -> list[str]:
        """Those that were counted, in order of their first verdict."""
        return list(dict.fromkeys(kernel for kernel, _ in self._counts))
