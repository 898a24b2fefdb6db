"""Estimate of a time from its blocks, the decision on two times, and the t distribution that decides it.

Times are compared as natural logarithms, so that a difference is a relative change; options and output are
in %.
"""

from __future__ import annotations

import math
from enum import Enum
from statistics import quantiles
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_TOLERANCE_PCT = 1000
"""Largest slowdown that a tolerance may accept, in %."""
PRECISE_PCT = 0.03
"""Standard error of a time, in %, below which more blocks add nothing: processes differ by more."""
SHARE = 0.2
"""Share of the values that is cut off at either end: one disturbed block in five does not count."""


class Outcome(str, Enum):
    """Outcome of comparing a time with its baseline."""

    PASS = "pass"  # noqa: S105
    """Within the screen, or alike in turn."""
    IMPROVED = "improved"
    """Faster."""
    REGRESSED = "regressed"
    """Slower."""
    INCONCLUSIVE = "inconclusive"
    """None of these is certain."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Result of a comparison.

    Changes are of the time, new against old, in %; slower is positive.
    """

    outcome: Outcome
    change_pct: float
    """The estimate."""
    low_pct: float
    """Lower bound of the change: by the screen, or by the spread between restarts."""
    high_pct: float
    """Upper bound of the change."""
    replicates: int
    """Number of stored sessions, of restarts, or of fresh processes, in the estimate."""
    new_card: bool = False
    """True if no stored session is from the card of the new one."""
    as_measured: bool = False
    """True if a decision on restarts is based on the times as measured, not on those at one clock."""


def trimmed_mean(values: Sequence[float]) -> float:
    """Return the mean without the lowest and highest `SHARE` of the values, as `scipy.stats.trim_mean`."""
    cut = int(SHARE * len(values))
    kept = sorted(values)[cut : len(values) - cut]
    return sum(kept) / len(kept)


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of `trimmed_mean`, as `scipy.stats.mstats.trimmed_stde`; 0 for one value.

    Tukey and McLaughlin (1963): the standard deviation of the winsorised values over (1 - 2·SHARE)·√n.
    """
    count = len(values)
    if count < 2:
        return 0.0
    cut = int(SHARE * count)
    ordered = sorted(values)
    low, high = ordered[cut], ordered[count - cut - 1]
    winsorised = [low] * cut + ordered[cut : count - cut] + [high] * cut
    mean = sum(winsorised) / count
    variance = sum((value - mean) ** 2 for value in winsorised) / (count - 1)
    return math.sqrt(variance / count) / (1 - 2 * SHARE)


def interquartile_range(values: Sequence[float]) -> float:
    """Return the distance between the quartiles, linearly interpolated as `numpy.quantile` does."""
    if len(values) < 2:
        return 0.0
    low, _, high = quantiles(values, n=4, method="inclusive")
    return high - low


def as_pct(log_ratio: float) -> float:
    """Return a logarithm of a ratio as a change in %, also of one that no two times have but a file can."""
    return 100 * math.expm1(min(log_ratio, 700.0))


def t_tail(df: int, value: float) -> float:
    """Return the upper tail of a t distribution from a value on.

    M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4: a finite sum, for
    one degree of freedom or more.
    """
    angle = math.atan(value / math.sqrt(df))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = df % 2
    term, total = (cosine if odd else 1.0), 0.0
    for step in range(df // 2):
        total += term
        term *= cosine**2 * (2 * step + 1 + odd) / (2 * step + 2 + odd)
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return (1 - inside) / 2
