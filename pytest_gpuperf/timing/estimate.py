"""From the blocks of a timing to one value and its spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def trimmed_mean(values: Sequence[float], share: float = 0.2) -> float:
    """Mean without the lowest and the highest `share` of the values, as `scipy.stats.trim_mean`."""
    cut = int(share * len(values))
    kept = sorted(values)[cut : len(values) - cut]
    return sum(kept) / len(kept)


def interquartile_range(values: Sequence[float]) -> float:
    """Distance between the quartiles, linearly interpolated as `numpy.quantile` does."""
    ordered = sorted(values)

    def quantile(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])

    return quantile(0.75) - quantile(0.25)
