"""Steps in the history of a test's time.

The logarithm of a time is the sum of a level, an effect of the card, one of the SM clock and the noise of a
session. The variances of the last three are known beforehand, so the levels follow by generalised least
squares (A. C. Aitken, Proc. R. Soc. Edinburgh 55 (1936) 42): a jump at a change of cards or clocks is a step
only if it is too large for that.

The search is binary segmentation: it adds the most significant step until none is significant (L. Yu.
Vostrikova, Sov. Math. Dokl. 24 (1981) 55). A creep shows as a step, or as several.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]

LEVEL = 3e-4
"""One-sided p-value below which a step is one, small because a history is judged after each commit, at each
commit of it. Tuned on half of the tests of `benchmarks/history_power`."""
LEAST_POINTS = 2
"""Minimum number of points of a level: one session may be an outlier."""
SURE_POINTS = 3
"""Number of points of a level from which `LEVEL` counts."""
SHORT_FACTOR = 1 / 30
"""Factor of `LEVEL` for shorter ones: sessions that follow each other often share what slows them."""
MOST_POINTS = 300
"""Number of points, the newest, that are searched: time and memory go with more than its square."""
MOST_STEPS = 20
"""Maximum number of steps in the points searched."""
LEAST_INFORMATION = 1e-6
"""Minimum information of a step that the other levels do not have already, as a part of all of it."""
CLOCK_SHARE, CLOCK_SHARE_SD = 0.5, 0.5
"""Part of a time that follows the SM clock, and its standard deviation: 0 if memory bounds the kernel, 1 if
arithmetic does."""
MOST_CARD_FACTOR = 5
"""Largest spread between cards that is believed, as a multiple of the expected one."""
MASS = 0.95
"""Probability of the commit range, and of the interval of the ratio."""


@dataclass(frozen=True)
class Noise:
    """Smallest step that counts, and standard deviations to expect, in %."""

    indifference_pct: float = 0.25
    """Largest step that counts as none: graphs of one kernel differ by 0.02 to 0.2 % between fresh processes
    on an H200."""
    session_sd_pct: float = 0.25
    """Spread between sessions on one card. Steady kernels spread by 0.01 to 0.25 % there at one clock
    (`tests/data/noise_sessions.json`)."""
    session_sd_us: float = 0.02
    """The same in microseconds, for kernels so short that this is more: one tick of `%globaltimer` is 0.032
    µs, and warm batches of a kernel of 1.2 µs spread by 1 %."""
    session_df: float = 3
    """Degrees of freedom of the spread between sessions: it weighs as much as that many measured ones."""
    card_sd_pct: float = 1.0
    """Spread between cards: two H200s differed by 0.2 % (arithmetic), 0.5 % (a copy) and 2 to 5 % (a matrix
    product at the power limit)."""
    card_df: float = 4
    """Degrees of freedom of `card_sd_pct`: five cards outweigh it."""

    def of(self, mode: str) -> Noise:
        """Return the noise of times of a mode; by the host's clock, another card is in another host."""
        if mode != "host":
            return self
        return replace(self, session_sd_pct=5.0, card_sd_pct=40.0, card_df=1)


class HistoryPoint(NamedTuple):
    """Time of a test in one session."""

    time: float
    """Time of a call in microseconds, above 0."""
    card: str
    """UUID of the GPU; if drivers hide it, all count as one card."""
    sd: float = 0.0
    """Relative standard error of the time from within its session, such as from another clock; 0 if not
    known."""
    mhz: float = 0.0
    """Mean SM clock of a time as measured; 0 if it is not known, or if the time was brought to one clock."""


class Step(NamedTuple):
    """Change of the level of a test's time."""

    before: int
    """Index of the last point of the old level."""
    after: int
    """Index of the first point of the new level: the cause is a commit after `before`, up to this one."""
    ratio: float
    """New over old time; above 1 is slower."""
    low: float
    """Lower bound of the 95 % interval of `ratio`."""
    high: float
    """Upper bound of the 95 % interval of `ratio`."""


def find_steps(points: Sequence[HistoryPoint], noise: Noise, *, level: float = LEVEL) -> tuple[Step, ...]:
    """Find the steps of a test's level that are larger than `noise.indifference_pct`, in their order.

    Args:
        points: The history, oldest first.
        noise: The noise to expect.
        level: One-sided p-value below which a step is reported.
    """
    if len(points) < 2 * LEAST_POINTS:
        return ()
    skipped = max(0, len(points) - MOST_POINTS)
    history = _History(points[skipped:], noise)
    found: list[int] = []
    while len(found) < MOST_STEPS:
        p, factors = history.p_values(found)
        best = int(p.argmin())
        if p[best] > level * factors[best]:
            break
        found = sorted([*found, best])
    return tuple(
        history.step(at, [other for other in found if other != at], skipped)
        for at in found
        # The newest session may be an outlier: its step only keeps it from moving another one.
        if history.count - at >= LEAST_POINTS
    )


class _History:
    """Points of a test, and their levels, made independent and of one variance."""

    def __init__(self, points: Sequence[HistoryPoint], noise: Noise) -> None:
        import numpy as np

        self.count = len(points)
        self.noise = noise
        clocks = np.array([point.mhz for point in points])
        clocks[clocks <= 0] = np.median(clocks[clocks > 0]) if (clocks > 0).any() else 1.0
        slowdown = np.log(np.median(clocks) / clocks)
        log_time = np.log([point.time for point in points]) - CLOCK_SHARE * slowdown
        cards = np.array([point.card for point in points])
        known = np.array([point.sd for point in points]) ** 2
        session, self.df = self._between_sessions(log_time, slowdown, cards, known)
        variance = np.diag(session + known)
        variance += self._between_cards(log_time, cards) * (cards[:, None] == cards)
        variance += CLOCK_SHARE_SD**2 * np.outer(slowdown, slowdown)
        whitening = np.linalg.inv(np.linalg.cholesky(variance))
        self.log_time: Array = whitening @ log_time
        self.levels: Array = whitening @ np.tril(np.ones((self.count, self.count)))
        """The step at each index, a column each; the first column is the level of all points."""

    def _between_sessions(
        self, log_time: Array, slowdown: Array, cards: NDArray[np.str_], known: Array
    ) -> tuple[float, float]:
        """Return the variance between sessions of one card, and its degrees of freedom.

        The median difference of neighbours has no part in a step, and in few outliers.
        """
        import numpy as np

        noise = self.noise
        expected = max(noise.session_sd_pct / 100, noise.session_sd_us / math.exp(np.median(log_time))) ** 2
        both = np.column_stack([log_time, slowdown])
        differences, slower = np.concatenate(
            [np.diff(both[cards == card], axis=0) for card in np.unique(cards)]
        ).T
        if not len(differences):
            return expected, noise.session_df
        # Differences of the clock are no noise: that share of them is the likeliest.
        share = slower @ differences / (slower @ slower + 2 * expected / CLOCK_SHARE_SD**2)
        squares = (differences - share * slower) ** 2
        # A difference has twice the variance; the median square of a normal variable is 0.455 of it.
        measured = max(0.0, np.median(squares) / 0.455 / 2 - np.median(known))
        df = noise.session_df + len(differences)
        return (noise.session_df * expected + len(differences) * measured) / df, df

    def _between_cards(self, log_time: Array, cards: NDArray[np.str_]) -> float:
        """Return the variance between cards: that of their median times, blended with the expected one."""
        import numpy as np

        noise = self.noise
        medians = [np.median(log_time[cards == card]) for card in np.unique(cards)]
        expected, others = (noise.card_sd_pct / 100) ** 2, len(medians) - 1
        # A difference that no cards have is a step.
        measured = min(float(np.var(medians, ddof=1)), MOST_CARD_FACTOR**2 * expected) if others else 0.0
        return (noise.card_df * expected + others * measured) / (noise.card_df + others)

    def _estimates(self, found: Sequence[int]) -> tuple[Array, Array]:
        """Return the logarithm of the ratio of a step at each index next to those found, and its error."""
        import numpy as np

        base, _ = np.linalg.qr(self.levels[:, [0, *found]])
        own = self.levels - base @ (base.T @ self.levels)
        information = np.einsum("ij,ij->j", own, own)
        usable = information > LEAST_INFORMATION * np.einsum("ij,ij->j", self.levels, self.levels)
        safe = np.where(usable, information, 1.0)
        return np.where(usable, self.log_time @ own / safe, 0.0), 1 / np.sqrt(safe)

    def p_values(self, found: Sequence[int]) -> tuple[Array, Array]:
        """Return the one-sided p-value of a step at each index, and the factor of the level that it needs."""
        import numpy as np
        from scipy.special import stdtr

        log_ratio, error = self._estimates(found)
        p = stdtr(self.df, (math.log1p(self.noise.indifference_pct / 100) - np.abs(log_ratio)) / error)
        edges = np.array([0, *found, self.count])
        points = np.abs(np.arange(self.count)[:, None] - edges).min(axis=1)
        p[:-1][points[:-1] < LEAST_POINTS] = 1.0
        p[list(found)] = 1.0
        return np.asarray(p), np.where(points < SURE_POINTS, SHORT_FACTOR, 1.0)

    def step(self, at: int, others: Sequence[int], skipped: int) -> Step:
        """Return a step with its size and its commit range, with indices after `skipped` more points.

        The range holds 95 % of the probability of the places around it, all being alike before: A. F. M.
        Smith, Biometrika 62 (1975) 407.
        """
        import numpy as np
        from scipy.special import stdtrit

        log_ratio, error = self._estimates(others)
        margin = stdtrit(self.df, (1 + MASS) / 2) * error[at]
        low, ratio, high = np.exp(log_ratio[at] + margin * np.array([-1.0, 0.0, 1.0])).tolist()
        first = max((other for other in others if other < at), default=0)
        last = min((other for other in others if other > at), default=self.count)
        places = np.arange(first + 1, last)
        likelihood = (log_ratio[places] / error[places]) ** 2 / 2
        weight = np.exp(likelihood - likelihood.max())
        order = np.argsort(-weight)
        enough = int(np.searchsorted(np.cumsum(weight[order]), MASS * weight.sum())) + 1
        within = [at, *places[order[:enough]].tolist()]
        return Step(min(within) - 1 + skipped, max(within) + skipped, ratio, low, high)
