"""Steps and creep in the history of a test's time.

The logarithm of a time is the sum of a level, an effect of the card and the noise of a session. Card and
session have a variance of their own, so a difference between cards explains a jump at a change of cards
unless the jump is too large for it. A change is a step of the level, or a ramp over several commits.

The search adds one change at a time, the most significant, until none is (L. Yu. Vostrikova, Sov. Math.
Dokl. 24 (1981) 55). Each prefix of a history can be judged as soon as its last session has run: this is the
sequential generalised likelihood ratio of D. Siegmund and E. S. Venkatraman, Ann. Statist. 23 (1995) 255,
with a moderated t instead of a known variance.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from pytest_gpuperf.statistics.decision import Thresholds
from pytest_gpuperf.statistics.variance import expected_variance, guess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]

LEVEL = 1e-4
"""One-sided p-value below which a change is one. Tuned on half of the tests of
`benchmarks/history_power`; a history is judged after each commit, at each commit of it."""
LEAST_POINTS = 2
"""Minimum number of points of a level: one session may be an outlier."""
MOST_POINTS = 1000
"""Number of points, the newest, that are searched: time and memory go with its square."""
MOST_RAMP = 30
"""Maximum number of points of a creep."""
LEAST_PART = 16
"""Minimum number of points of a part of a history that is searched."""
MOST_CHANGES = 20
"""Maximum number of changes in the points searched."""
MASS = 0.95
"""Probability of the commit range, and of the interval of the ratio."""


class HistoryPoint(NamedTuple):
    """Time of a test in one session."""

    time: float
    """Time of a call at one clock, in microseconds, above 0."""
    card: str
    """UUID of the GPU; if drivers hide it, all count as one card."""
    sd: float = 0.0
    """Relative standard error of the time from within its session, such as from another clock; 0 if not
    known."""


class Change(NamedTuple):
    """Change of the level of a test's time."""

    kind: Literal["step", "creep"]
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


class _Ramp(NamedTuple):
    """Level that changes from one index to a later one; a step if these follow each other."""

    before: int
    after: int


class _Scan(NamedTuple):
    """Estimates of candidates that are added to a model one at a time."""

    log_ratio: Array
    standard_error: Array
    df: Array
    residual: Array
    """Sum of squares that is left."""
    information: Array
    """Inverse variance of `log_ratio` in units of the noise; 0 if the model has the change already."""


def find_changes(points: Sequence[HistoryPoint], thresholds: Thresholds | None = None) -> tuple[Change, ...]:
    """Find the changes of a test's level, in the order of their commits.

    A change is reported if it is significantly larger than `thresholds.indifference_pct`.

    Args:
        points: The history, oldest first.
        thresholds: The noise to expect; by default that of times by the GPU's clock.
    """
    if len(points) < 2 * LEAST_POINTS:
        return ()
    skipped = max(0, len(points) - MOST_POINTS)
    history = _History(points[skipped:], thresholds or Thresholds())
    return tuple(
        change._replace(before=change.before + skipped, after=change.after + skipped)
        for change in history.changes()
    )


class _History:
    """Points of a test as a linear mixed model: level, effects of the cards, changes."""

    def __init__(self, points: Sequence[HistoryPoint], thresholds: Thresholds) -> None:
        import numpy as np

        self.points = points
        self.thresholds = thresholds
        self.count = len(points)
        self.log_time: Array = np.log([point.time for point in points])
        self.known: Array = np.array([point.sd for point in points]) ** 2
        """Variance of each point that its session knows."""
        cards = sorted({point.card for point in points})
        self.cards: Array = np.array(
            [[point.card == card for card in cards] for point in points], dtype=float
        )
        self.noise = expected_variance(self.log_time, thresholds)
        self.between = guess(thresholds.card_sd_pct, thresholds.card_df)

    def changes(self) -> list[Change]:
        """Return all changes."""
        found: list[_Ramp] = []
        while len(found) < MOST_CHANGES and (ramp := self._next(found)) is not None:
            found = sorted([*found, ramp])
        while (kept := self._kept(found)) != found:
            found = kept
        return [self._described(ramp, others) for ramp, others in _each(found)]

    def _next(self, found: list[_Ramp]) -> _Ramp | None:
        """Return the most significant change next to those found; None if there is none.

        A step up and one down hide each other in the whole history, so parts of it are searched as well.
        """
        gaps = self._gaps(found)
        step = self._best(found)
        if step is None:
            parts = [part for gap in gaps for part in _seeded(*gap)]
            for low, high in parts:
                step = _History(self.points[low:high], self.thresholds)._best([])
                if step is not None:
                    step = _Ramp(step.before + low, step.after + low)
                    break
        return step and self._widened(step, found)

    def _best(self, found: list[_Ramp]) -> _Ramp | None:
        """Return the most significant step next to the changes found; None if there is none."""
        import numpy as np

        steps = [
            _Ramp(at - 1, at)
            for low, high in self._gaps(found)
            for at in range(low + LEAST_POINTS, high - LEAST_POINTS + 1)
        ]
        if not steps:
            return None
        p = self._p(self._scan(steps, found))
        best = int(np.argmin(p))
        return steps[best] if p[best] <= LEVEL else None

    def _kept(self, found: list[_Ramp]) -> list[_Ramp]:
        """Return the changes without the least significant, if it is not significant next to the others."""
        p = [float(self._p(self._scan([ramp], others))[0]) for ramp, others in _each(found)]
        worst = max(p, default=0.0)
        return found if worst <= LEVEL else [ramp for ramp, its in zip(found, p, strict=True) if its < worst]

    def _gaps(self, found: list[_Ramp]) -> list[tuple[int, int]]:
        """Return the ranges of points between changes: first index, and the one after the last."""
        edges = [0, *(edge for ramp in found for edge in (ramp.before + 1, ramp.after)), self.count]
        return list(zip(edges[::2], edges[1::2], strict=True))

    def _widened(self, step: _Ramp, found: list[_Ramp]) -> _Ramp:
        """Return the ramp around a step if it explains the points better than any step, else the step.

        The ramp has one more parameter: by the criterion of G. Schwarz, Ann. Statist. 6 (1978) 461, its
        likelihood has to be larger by half the logarithm of the number of points.
        """
        import numpy as np

        low, high = next((low, high) for low, high in self._gaps(found) if low <= step.before < high)
        ramps = [
            _Ramp(before, after)
            for before in range(max(low + LEAST_POINTS - 1, step.after - MOST_RAMP), step.after)
            for after in range(before + 3, min(high, before + MOST_RAMP, self.count - 1) + 1)
            if after > step.before
        ]
        if not ramps:
            return step
        scan = self._scan([step, *ramps], found)
        likelihood = self._likelihood(scan)
        best = 1 + int(np.argmax(likelihood[1:]))
        better = likelihood[best] - likelihood[0] > math.log(self.count) / 2
        return ramps[best - 1] if better and self._p(scan)[best] <= LEVEL else step

    def _described(self, ramp: _Ramp, others: list[_Ramp]) -> Change:
        """Return a change with its commit range and its size.

        The range of a step holds 95 % of the probability of its place, all places being alike before: A. F.
        M. Smith, Biometrika 62 (1975) 407.
        """
        import numpy as np
        from scipy.special import stdtrit

        scan = self._scan([ramp], others)
        margin = stdtrit(scan.df[0], (1 + MASS) / 2) * scan.standard_error[0]
        low, ratio, high = np.exp(scan.log_ratio[0] + margin * np.array([-1.0, 0.0, 1.0])).tolist()
        before, after = ramp
        if after - before > 1:
            return Change("creep", before, after, ratio, low, high)
        first, last = next((low, high) for low, high in self._gaps(others) if low <= before < high)
        steps = [_Ramp(at - 1, at) for at in range(first + 1, last)]
        places = self._scan(steps, others)
        likelihood = self._likelihood(places)
        weight = np.exp(likelihood - likelihood.max()) * (places.information > 0)
        order = np.argsort(-weight)
        enough = int(np.searchsorted(np.cumsum(weight[order]), MASS * weight.sum())) + 1
        within = [steps[at] for at in order[:enough]] + [ramp]
        before, after = min(step.before for step in within), max(step.after for step in within)
        return Change("step", before, after, ratio, low, high)

    def _likelihood(self, scan: _Scan) -> Array:
        """Return the logarithm of the marginal likelihood of each candidate, up to a constant."""
        import numpy as np

        prior = self.noise.df * self.noise.value
        return -(self.noise.df + self.count) / 2 * np.log(prior + scan.residual)

    def _p(self, scan: _Scan) -> Array:
        """Return the one-sided p-value of each candidate against the indifference zone."""
        import numpy as np
        from scipy.special import stdtr

        zone = math.log1p(self.thresholds.indifference_pct / 100)
        return np.asarray(stdtr(scan.df, (zone - np.abs(scan.log_ratio)) / scan.standard_error))

    def _scan(self, candidates: Sequence[_Ramp], found: Sequence[_Ramp]) -> _Scan:
        """Estimate each candidate next to the changes found.

        Effects of cards are shrunk by the expected variances (best linear unbiased prediction: C. R.
        Henderson, Biometrics 31 (1975) 423); errors are by variances that the points have moderated.
        """
        import numpy as np

        shifts = self._columns(candidates)
        base = np.column_stack([np.ones(self.count), self._columns(found), self.cards])
        ridge = np.zeros(base.shape[1])
        ridge[-self.cards.shape[1] :] = self.noise.value / self.between.value
        inverse = np.linalg.inv(base.T @ base + np.diag(ridge))
        free = shifts - base @ (inverse @ (base.T @ shifts))
        information = np.einsum("ij,ij->j", free, shifts)
        usable = information > 1e-6
        score = free.T @ self.log_time
        log_ratio = np.where(usable, score / np.where(usable, information, 1), 0.0)
        rest = self.log_time - base @ (inverse @ (base.T @ self.log_time))
        weight = free / np.where(usable, information, np.inf)
        noise, noise_df, between, between_df = self._variances(shifts, log_ratio, found)
        by_card = self.cards.T @ weight
        sessions = noise * np.einsum("ij,ij->j", weight, weight)
        cards = between * np.einsum("cj,cj->j", by_card, by_card)
        known = self.known[:, None] * weight**2
        total = sessions + cards + known.sum(axis=0)
        # The degrees of freedom of Welch and Satterthwaite, as in `variance.add`.
        spread = (
            sessions**2 / noise_df
            + cards**2 / between_df
            + (known**2).sum(axis=0) / self.thresholds.session_df
        )
        safe = np.where(usable, total, 1.0)
        return _Scan(
            log_ratio=log_ratio,
            standard_error=np.sqrt(safe),
            df=np.where(usable, safe**2 / np.where(usable, spread, 1.0), 1.0),
            residual=np.maximum(rest @ self.log_time - np.where(usable, score * log_ratio, 0.0), 0.0),
            information=np.where(usable, information, 0.0),
        )

    def _variances(
        self, shifts: Array, log_ratio: Array, found: Sequence[_Ramp]
    ) -> tuple[Array, Array, Array, Array]:
        """Estimate the variances between sessions and between cards with each candidate in the model.

        Each is the expected one blended with that of the points, as in `variance.moderate` and in
        `one_session`: the first is at least half that of the points.

        Returns:
            Variance between sessions and its degrees of freedom, variance between cards and its.
        """
        import numpy as np

        # Cards are fixed effects here, so that their differences do not count as noise of the sessions.
        base = np.column_stack([self.cards, self._columns(found)])
        inverse = np.linalg.pinv(base.T @ base)
        free = shifts - base @ (inverse @ (base.T @ shifts))
        information = np.einsum("ij,ij->j", free, free)
        inside = information > 1e-6
        rest = self.log_time - base @ (inverse @ (base.T @ self.log_time))
        score = free.T @ rest
        residual = rest @ rest - np.where(inside, score**2 / np.where(inside, information, 1), 0.0)
        residual = np.maximum(residual, 0.0)
        own_df = np.maximum(self.count - np.linalg.matrix_rank(base) - inside, 0)
        noise_df = self.noise.df + own_df
        noise = (self.noise.df * self.noise.value + residual) / noise_df
        noise = np.maximum(noise, residual / np.maximum(own_df, 1) / 2)
        if self.cards.shape[1] < 2:
            return (
                noise,
                noise_df,
                np.full_like(noise, self.between.value),
                np.full_like(noise, self.between.df),
            )
        effects = (inverse @ (base.T @ (self.log_time[:, None] - shifts * log_ratio)))[: self.cards.shape[1]]
        spread = np.var(effects, axis=0, ddof=1) - noise * np.mean(1 / self.cards.sum(axis=0))
        # A change that no card has seen both sides of takes the place of a difference between cards.
        spread_df = self.cards.shape[1] - 1 - np.where(inside, 0, 1)
        between_df = self.between.df + spread_df
        between = (self.between.df * self.between.value + spread_df * np.maximum(spread, 0.0)) / between_df
        return noise, noise_df, between, between_df

    def _columns(self, ramps: Sequence[_Ramp]) -> Array:
        """Return the share of each change that each point has, from 0 to 1."""
        import numpy as np

        at = np.arange(self.count, dtype=float)[:, None]
        before = np.array([ramp.before for ramp in ramps], dtype=float)
        after = np.array([ramp.after for ramp in ramps], dtype=float)
        return np.clip((at - before) / (after - before), 0.0, 1.0)


def _each(found: list[_Ramp]) -> list[tuple[_Ramp, list[_Ramp]]]:
    """Return each change with the others."""
    return [(ramp, [other for other in found if other != ramp]) for ramp in found]


def _seeded(low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield parts of a range, each half as long as those before and half over the next, down to 16 points.

    Source: S. Kovács, P. Bühlmann, H. Li and A. Munk, Biometrika 110 (2023) 249.
    """
    length = high - low
    while (length := length // 2) >= LEAST_PART:
        half = length // 2
        for first in range(low, high - length + 1, half):
            yield first, min(first + length, high)
