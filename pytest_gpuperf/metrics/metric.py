"""One row of the catalogue: what a metric is, and how ncu's raw values become it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypeAlias

from pytest_gpuperf.metrics.chips import CHIPS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.records import MetricValue

Better: TypeAlias = Literal["higher", "lower", ""]
Formula: TypeAlias = "Callable[[Sequence[float]], MetricValue | None]"
"""Makes a value of raw ones in ncu's base units, in the order of their names; None where it has none."""

EVERY_CHIP = frozenset(chip.name for chip in CHIPS)


class Tier(Enum):
    """How much a metric moves when nothing changed."""

    EXACT = "exact"
    """A fact of the compiled kernel and its launch: the same in every run."""
    NEAR_EXACT = "near-exact"
    """A count of work done: moves by a fraction of a per cent at most."""
    STATE = "state"
    """Depends on clocks, caches and neighbours, as a time does."""


class Combining(Enum):
    """How the launches of several kernels become one row."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    DURATION = "duration"
    """Mean weighted by what its values are shares of, or by `duration_us` where that is not known."""
    INSTRUCTIONS = "instructions"
    """Mean weighted by `instructions`, for what is counted per instruction."""
    WARP_CYCLES = "warp cycles"
    """Mean weighted by `instructions` times `warp_cycles_per_instruction`, for shares of all warp cycles."""
    SAME = "same"
    """The value that all have; else `mixed` for a word and nothing for a number."""


def as_it_is(values: Sequence[float]) -> float:
    """The one value."""
    return values[0]


def total(values: Sequence[float]) -> float:
    """All values together."""
    return math.fsum(values)


def above_zero(values: Sequence[float]) -> float | None:
    """The one value; ncu writes 0 for the mean of nothing."""
    return values[0] or None


def ratio(values: Sequence[float]) -> float | None:
    """The first over the second."""
    return values[0] / values[1] if values[1] else None


def share(values: Sequence[float]) -> float | None:
    """The first in per cent of the second."""
    return 100 * values[0] / values[1] if values[1] else None


def share_of_sum(values: Sequence[float]) -> float | None:
    """The first in per cent of all others together, of which it is one."""
    whole = math.fsum(values[1:])
    return 100 * values[0] / whole if whole else None


def scaled(factor: float) -> Formula:
    """The one value in another unit."""
    return lambda values: values[0] * factor


@dataclass(frozen=True)
class Source:
    """One way to read a metric."""

    names: tuple[str, ...]
    """Raw ncu names; all of them are needed."""
    formula: Formula = as_it_is
    chips: frozenset[str] = EVERY_CHIP
    """Those where ncu has all of the names."""
    requested: bool = True
    """Whether ncu is asked for these; else they are taken from reports that happen to hold them."""


@dataclass(frozen=True)
class Metric:
    """One row of the catalogue."""

    name: str
    unit: str
    """`us`, `%`, `byte`, `block` …; empty for a pure number or a word."""
    better: Better
    """Which direction is an improvement; empty where neither is by itself."""
    tier: Tier
    combining: Combining
    section: str
    """Identifier of the ncu section that shows it, as `ncu --section` takes it; empty where none does."""
    explanation: str
    sources: tuple[Source, ...]
    """Of those whose names all have values, the first counts."""

    @property
    def ncu(self) -> str:
        """Raw ncu name that it is read from; empty where it is derived from several."""
        names = self.sources[0].names if self.sources else ()
        return names[0] if len(names) == 1 else ""

    @property
    def chips(self) -> frozenset[str]:
        """Names of the chips that have it."""
        if not self.sources:
            return EVERY_CHIP
        return frozenset().union(*(source.chips for source in self.sources if source.requested))

    def requests(self, chip: str = "") -> tuple[str, ...]:
        """Raw names to ask ncu for.

        Args:
            chip: Name of a chip; empty for the names of all of them.

        Returns:
            Nothing where the chip lacks the metric.
        """
        wanted = [source for source in self.sources if source.requested and chip in ("", *source.chips)]
        return tuple(name for source in wanted[: 1 if chip else None] for name in source.names)


def but(*chips: str) -> frozenset[str]:
    """Every chip but these."""
    return EVERY_CHIP.difference(chips)


def since(name: str) -> frozenset[str]:
    """This chip and all later ones, by compute capability."""
    names = [chip.name for chip in CHIPS]
    return frozenset(names[names.index(name) :])
