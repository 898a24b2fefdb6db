"""One metric: name, unit, direction, how launches combine, and the ncu counters that it is read from."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypeAlias

from pytest_gpuperf.metrics.chips import CHIPS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_gpuperf.records import MetricValue

Better: TypeAlias = Literal["higher", "lower", ""]
Preset: TypeAlias = Literal[
    "default", "sol", "occupancy", "launch", "stalls", "memory", "tensor", "roofline", "one-pass"
]
Formula: TypeAlias = "Callable[[Sequence[float]], MetricValue | None]"
"""Function from raw values, in ncu's base units and in the order of their names, to a value or None."""

EVERY_CHIP = frozenset(chip.name for chip in CHIPS)


class Tier(Enum):
    """Variation of a metric when nothing changed."""

    EXACT = "exact"
    """A fact of the compiled kernel and its launch: the same in every run."""
    NEAR_EXACT = "near-exact"
    """A count of work: moves by a fraction of a percent at most."""
    STATE = "state"
    """Depends on clocks, caches and neighbours, as a time does."""


class Combining(Enum):
    """Way to combine several launches into one row."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    MEAN = "mean"
    """Mean, weighted by the quantity that the values are shares of."""
    SAME = "same"
    """The common value of all launches; if they differ, `mixed` for a word and nothing for a number."""


def as_it_is(values: Sequence[float]) -> float:
    """Return the only value."""
    return values[0]


def total(values: Sequence[float]) -> float:
    """Return the sum of all values."""
    return math.fsum(values)


def above_zero(values: Sequence[float]) -> float | None:
    """Return the only value, or None for 0: ncu writes 0 for the mean of nothing."""
    return values[0] or None


def ratio(values: Sequence[float]) -> float | None:
    """Return the first value over the second."""
    return values[0] / values[1] if values[1] else None


def share(values: Sequence[float]) -> float | None:
    """Return the first value as a percentage of the second."""
    return 100 * values[0] / values[1] if values[1] else None


def share_of_sum(values: Sequence[float]) -> float | None:
    """Return the first value as a percentage of the sum of the others, which include it."""
    whole = math.fsum(values[1:])
    return 100 * values[0] / whole if whole else None


def scaled(factor: float) -> Formula:
    """Make a formula that brings the only value to another unit."""
    return lambda values: values[0] * factor


@dataclass(frozen=True)
class Source:
    """One way to read a metric."""

    names: tuple[str, ...]
    """Raw ncu names; all of them are needed."""
    formula: Formula = as_it_is
    chips: frozenset[str] = EVERY_CHIP
    """Chips on which ncu has all of the names."""
    requested: bool = True
    """True if ncu is asked for the names; False if they are only read from reports that hold them."""


def one(raw: str, formula: Formula = as_it_is, chips: frozenset[str] = EVERY_CHIP) -> tuple[Source]:
    """Return the sources of a metric that is always read from one raw name."""
    return (Source((raw,), formula, chips),)


@dataclass(frozen=True)
class Metric:
    """One metric, with everything that the plugin knows about it."""

    name: str
    unit: str
    """`us`, `%`, `byte`, `block` …; empty for a pure number or a word."""
    explanation: str
    sources: tuple[Source, ...] = ()
    """The first source whose names all have values counts."""
    _: KW_ONLY
    section: str = ""
    """Identifier of the ncu section that shows the metric, for `ncu --section`; empty if no section does."""
    better: Better = ""
    """The direction that is an improvement; empty if neither is by itself."""
    tier: Tier = Tier.STATE
    combining: Combining = Combining.MEAN
    weight: tuple[str, ...] = ()
    """Short names of the metrics whose product weights a mean over launches. Empty for a metric with one raw
    name: that name tells the weight (see `combine`)."""
    presets: tuple[Preset, ...] = ()
    """Presets that hold the metric."""

    @property
    def ncu(self) -> str:
        """Raw ncu name that the metric is read from; empty if it is derived from several."""
        names = self.sources[0].names if self.sources else ()
        return names[0] if len(names) == 1 else ""

    @property
    def chips(self) -> frozenset[str]:
        """Names of the chips that have the metric."""
        if not self.sources:
            return EVERY_CHIP
        return frozenset().union(*(source.chips for source in self.sources if source.requested))

    def requests(self, chip: str = "") -> tuple[str, ...]:
        """List the raw names to ask ncu for.

        Args:
            chip: Name of a chip; empty for the names of all chips.

        Returns:
            Nothing if the chip lacks the metric.
        """
        wanted = [source for source in self.sources if source.requested and chip in ("", *source.chips)]
        return tuple(name for source in wanted[: 1 if chip else None] for name in source.names)

    def read(self, numbers: Mapping[str, float]) -> MetricValue | None:
        """Compute the value from raw values, None if there are not enough.

        Args:
            numbers: Values in ncu's base units by raw name.
        """
        for source in self.sources:
            if all(name in numbers for name in source.names):
                value = source.formula([numbers[name] for name in source.names])
                if value is not None:
                    return value
        return None


def but(*chips: str) -> frozenset[str]:
    """Return every chip except these."""
    return EVERY_CHIP.difference(chips)


def since(name: str) -> frozenset[str]:
    """Return this chip and all later ones, by compute capability."""
    names = [chip.name for chip in CHIPS]
    return frozenset(names[names.index(name) :])
