"""Steps and creep in the history of a test's time.

The logarithm of a time is the sum of a level, an effect of the card, one of the SM clock and the noise of a
session. Card and session have a variance of their own, so a difference between cards explains a jump at a
change of cards unless the jump is too large for it. The part of a time that follows the clock is between 0
and 1; the history estimates it. A change is a step of the level, or a ramp over several commits.

The search adds one change at a time, the most significant, until none is (L. Yu. Vostrikova, Sov. Math.
Dokl. 24 (1981) 55). Each prefix of a history can be judged as soon as its last session has run: this is the
sequential generalised likelihood ratio of D. Siegmund and E. S. Venkatraman, Ann. Statist. 23 (1995) 255,
with a moderated t instead of a known variance.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_gpuperf.features.history.change_noise import ChangeNoise
from pytest_gpuperf.features.history.level_shapes import Ramp, Shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.features.history.level_shapes import Array

LEVEL = 3e-4
"""One-sided p-value below which a change is one, small because a history is judged after each commit, at each
commit of it. Tuned on half of the tests of `benchmarks/history_power`."""
LEAST_POINTS = 2
"""Minimum number of points of a level: one session may be an outlier."""
SURE_POINTS = 3
"""Number of points of a level from which `LEVEL` counts."""
SHORT_FACTOR = 1 / 30
"""Factor of `LEVEL` for shorter ones: sessions that follow each other often share what slows them."""
MOST_POINTS = 300
"""Number of points, the newest, that are searched: time and memory go with more than its square."""
LEAST_RAMP, MOST_RAMP = 3, 30
"""Minimum and maximum number of points over which a creep goes."""
REACH = 12
"""Number of points around each end of a creep that may be its end."""
RAMPS = (4, 8, 16)
"""Numbers of points over which the search for a creep begins."""
LEAST_PAIR = 4
"""Minimum number of points between a step and the one that takes it back, if neither shows alone."""
MOST_CHANGES = 20
"""Maximum number of changes in the points searched."""
LEAST_INFORMATION = 1e-6
"""Minimum information of a change, in sessions, that the model does not have already."""
CLOCK_SHARE, CLOCK_SHARE_SD = 0.5, 0.5
"""Part of a time that follows the SM clock before the history tells, and its standard deviation: 0 if memory
bounds the kernel, 1 if arithmetic does."""
MASS = 0.95
"""Probability of the commit range, and of the interval of the ratio."""


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


class _Scan(NamedTuple):
    """Estimates of candidates that are added to a model one at a time."""

    log_ratio: Array
    standard_error: Array
    df: Array
    """Degrees of freedom, at most: those of errors that sessions know are left out."""
    residual: Array
    """Sum of squares that is left."""
    information: Array
    """Inverse variance of `log_ratio` in units of the noise; 0 if the model has the change already."""


def find_changes(
    points: Sequence[HistoryPoint], expected: ChangeNoise | None = None, *, level: float = LEVEL
) -> tuple[Change, ...]:
    """Find the changes of a test's level, in the order of their commits.

    A change is reported if it is significantly larger than `expected.indifference_pct`.

    Args:
        points: The history, oldest first.
        expected: The noise to expect; by default that of times by the GPU's clock.
        level: One-sided p-value below which a change is reported.
    """
    if len(points) < 2 * LEAST_POINTS:
        return ()
    skipped = max(0, len(points) - MOST_POINTS)
    history = _History(points[skipped:], expected or ChangeNoise(), level)
    return tuple(
        change._replace(before=change.before + skipped, after=change.after + skipped)
        for change in history.changes()
    )


class _History:
    """Points of a test as a linear mixed model: level, effects of the clock and of the cards, changes."""

    def __init__(self, points: Sequence[HistoryPoint], expected: ChangeNoise, level: float) -> None:
        import numpy as np

        self.points = points
        self.expected = expected
        self.level = level
        self.count = len(points)
        clocks = np.array([point.mhz for point in points])
        clocks[clocks <= 0] = np.median(clocks[clocks > 0]) if (clocks > 0).any() else 1.0
        slowdown = np.log(np.median(clocks) / clocks)
        measured = np.log([point.time for point in points])
        self.log_time: Array = measured - CLOCK_SHARE * slowdown
        self.known: Array = np.array([point.sd for point in points]) ** 2
        """Variance of each point that its session knows."""
        cards = sorted({point.card for point in points})
        self.cards: Array = np.array(
            [[point.card == card for card in cards] for point in points], dtype=float
        )
        self.noise = expected.of_sessions(measured)
        self.clock: Array = slowdown * CLOCK_SHARE_SD / math.sqrt(self.noise.value)
        """Effect of the clock if the share is off by its standard deviation, in units of the noise."""
        self.between = expected.of_cards

    def changes(self) -> list[Change]:
        """Return all changes."""
        found: list[Ramp] = []
        while len(found) < MOST_CHANGES and (more := self._best(found)):
            found = sorted([*found, *more])
            for change in more:
                others = [other for other in found if other != change]
                found = sorted([*others, self._shaped(change, others)])
        while (kept := self._kept(found)) != found:
            found = kept
        return [self._described(ramp, others) for ramp, others in _each(found)]

    def _best(self, found: list[Ramp]) -> list[Ramp]:
        """Return the most significant change next to those found; none if there is none.

        A step and its fix hide each other in the whole history, so such pairs are searched as well.
        """
        import numpy as np

        gaps = self._gaps(found)
        single, factors = self._single(gaps)
        if len(single):
            best, p = self._lowest(single, found, factors)
            if p <= self.level:
                return [single.ramp(best)]
        pairs = self._pairs(gaps)
        if len(pairs):
            best, p = self._lowest(pairs, found, np.ones(len(pairs)))
            if p <= self.level:
                return pairs.ramps(best)
        return []

    def _single(self, gaps: Sequence[tuple[int, int]]) -> tuple[Shapes, Array]:
        """Return all steps in some ranges of points, and ramps of some lengths, with factors of the level."""
        import numpy as np

        before, after, factors = [], [], []
        for low, high in gaps:
            steps = np.arange(low + LEAST_POINTS, high - LEAST_POINTS + 1)
            short = np.minimum(steps - low, high - steps) < SURE_POINTS
            before.append(steps - 1)
            after.append(steps)
            factors.append(np.where(short, SHORT_FACTOR, 1.0))
            for length in RAMPS:
                begins = np.arange(low + LEAST_POINTS - 1, high - length)
                before.append(begins)
                after.append(begins + length)
                # A ramp may go on, so its points tell as well.
                factors.append(np.ones(len(begins)))
        shapes = Shapes(self.count, np.concatenate(before), np.concatenate(after))
        return shapes, np.concatenate(factors)

    def _pairs(self, gaps: Sequence[tuple[int, int]]) -> Shapes:
        """Return steps that are taken back 4, 8, 16 and more points later, within a range of points."""
        import numpy as np

        after, end = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for low, high in gaps:
            length = LEAST_PAIR
            while low + LEAST_POINTS + length <= high - LEAST_POINTS:
                after.append(np.arange(low + LEAST_POINTS, high - LEAST_POINTS - length + 1))
                end.append(after[-1] + length)
                length *= 2
        steps = np.concatenate(after)
        return Shapes(self.count, steps - 1, steps, np.concatenate(end))

    def _lowest(self, shapes: Shapes, found: list[Ramp], factors: Array) -> tuple[int, float]:
        """Return the index and the p-value over its factor of the most significant shape.

        The exact p-value takes a column for each shape, so only shapes that may be the best get one.
        """
        import numpy as np

        least = self._p(self._scan(shapes, found)) / factors
        first = int(np.argmin(least))
        if least[first] > self.level:
            return first, float(least[first])
        bound = self._exact(shapes.some(np.array([first])), found)[0] / factors[first]
        near = np.flatnonzero(least <= max(bound, least[first]))
        p = self._exact(shapes.some(near), found) / factors[near]
        best = int(np.argmin(p))
        return int(near[best]), float(p[best])

    def _kept(self, found: list[Ramp]) -> list[Ramp]:
        """Return the changes without the least significant, if it is not significant next to the others."""
        p = [float(self._exact(self._shapes([ramp]), others)[0]) for ramp, others in _each(found)]
        worst = max(p, default=0.0)
        return (
            found
            if worst <= self.level
            else [ramp for ramp, its in zip(found, p, strict=True) if its < worst]
        )

    def _gaps(self, found: list[Ramp]) -> list[tuple[int, int]]:
        """Return the ranges of points between changes: first index, and the one after the last."""
        edges = [0, *(edge for ramp in found for edge in (ramp.before + 1, ramp.after)), self.count]
        return list(zip(edges[::2], edges[1::2], strict=True))

    def _shaped(self, change: Ramp, found: list[Ramp]) -> Ramp:
        """Return the likeliest change at the place of one: a step, or a ramp if it explains more.

        The ramp has one more parameter: by the criterion of G. Schwarz, Ann. Statist. 6 (1978) 461, its
        likelihood has to be larger by half the logarithm of the number of points.
        """
        import numpy as np

        low, high = next((low, high) for low, high in self._gaps(found) if low <= change.before < high)
        steps = [Ramp(at - 1, at) for at in range(low + LEAST_POINTS, high - LEAST_POINTS + 1)]
        ramps = [
            Ramp(before, after)
            for before in range(max(low + LEAST_POINTS - 1, change.after - MOST_RAMP), change.after)
            for after in range(before + LEAST_RAMP, min(high - 1, before + MOST_RAMP) + 1)
            if after > change.before
        ]
        shapes = self._shapes([*steps, *ramps])
        scan = self._scan(shapes, found)
        likelihood = self._likelihood(scan)
        likelihood[len(steps) :] -= math.log(self.count) / 2
        near = np.flatnonzero(self._p(scan) <= self.level)
        near = near[self._exact(shapes.some(near), found) <= self.level]
        return shapes.ramp(int(near[np.argmax(likelihood[near])])) if len(near) else change

    def _described(self, ramp: Ramp, others: list[Ramp]) -> Change:
        """Return a change with its commit range and its size.

        The range holds 95 % of the probability of the places around it, all being alike before: A. F. M.
        Smith, Biometrika 62 (1975) 407.
        """
        import numpy as np
        from scipy.special import stdtrit

        scan, df = self._scanned_exactly(self._shapes([ramp]), others)
        margin = stdtrit(df[0], (1 + MASS) / 2) * scan.standard_error[0]
        low, ratio, high = np.exp(scan.log_ratio[0] + margin * np.array([-1.0, 0.0, 1.0])).tolist()
        first, last = next((low, high) for low, high in self._gaps(others) if low <= ramp.before < high)
        creep = ramp.after - ramp.before > 1
        if creep:
            shapes = [
                Ramp(before, after)
                for before in range(max(first, ramp.before - REACH), ramp.after)
                for after in range(
                    max(before + LEAST_RAMP, ramp.after - REACH), min(last, ramp.after + REACH)
                )
            ]
        else:
            shapes = [Ramp(at - 1, at) for at in range(first + 1, last)]
        places = self._scan(self._shapes(shapes), others)
        likelihood = self._likelihood(places)
        weight = np.exp(likelihood - likelihood.max()) * (places.information > 0)
        order = np.argsort(-weight)
        enough = int(np.searchsorted(np.cumsum(weight[order]), MASS * weight.sum())) + 1
        within = [shapes[at] for at in order[:enough]] + [ramp]
        before, after = min(place.before for place in within), max(place.after for place in within)
        return Change("creep" if creep else "step", before, after, ratio, low, high)

    def _likelihood(self, scan: _Scan) -> Array:
        """Return the logarithm of the marginal likelihood of each candidate, up to a constant."""
        import numpy as np

        prior = self.noise.df * self.noise.value
        return -(self.noise.df + self.count) / 2 * np.log(prior + scan.residual)

    def _p(self, scan: _Scan, df: Array | None = None) -> Array:
        """Return the one-sided p-value of each candidate against the indifference zone."""
        import numpy as np
        from scipy.special import stdtr

        zone = math.log1p(self.expected.indifference_pct / 100)
        df = scan.df if df is None else df
        return np.asarray(stdtr(df, (zone - np.abs(scan.log_ratio)) / scan.standard_error))

    def _exact(self, shapes: Shapes, found: Sequence[Ramp]) -> Array:
        """Return the one-sided p-value of each candidate with all errors in its degrees of freedom."""
        return self._p(*self._scanned_exactly(shapes, found))

    def _scanned_exactly(self, shapes: Shapes, found: Sequence[Ramp]) -> tuple[_Scan, Array]:
        """Estimate each candidate, with degrees of freedom that count what sessions know of their errors."""
        import numpy as np

        scan = self._scan(shapes, found)
        base, inverse = self._mixed(found)
        columns = shapes.columns()
        free = columns - base @ (inverse @ (base.T @ columns))
        usable = scan.information > 0
        weight = np.where(usable, free / np.where(usable, scan.information, 1.0), 0.0)
        known = self.known**2 @ weight**4 / self.expected.session_df
        variance = scan.standard_error**4
        return scan, variance / (variance / scan.df + known)

    def _mixed(self, found: Sequence[Ramp]) -> tuple[Array, Array]:
        """Return the columns of the model without a candidate, and the inverse of its normal matrix.

        Effects of the clock and of cards are shrunk by the expected variances (best linear unbiased
        prediction: C. R. Henderson, Biometrics 31 (1975) 423).
        """
        import numpy as np

        base = np.column_stack([np.ones(self.count), self._shapes(found).columns(), self.clock, self.cards])
        ridge = np.zeros(base.shape[1])
        ridge[-self.cards.shape[1] - 1] = 1.0
        ridge[-self.cards.shape[1] :] = self.noise.value / self.between.value
        return base, np.linalg.inv(base.T @ base + np.diag(ridge))

    def _scan(self, shapes: Shapes, found: Sequence[Ramp]) -> _Scan:
        """Estimate each candidate next to the changes found.

        Errors are by variances that the points have moderated. Only sums over the points are needed, no
        column for each candidate.
        """
        import numpy as np

        base, inverse = self._mixed(found)
        rest = self.log_time - base @ (inverse @ (base.T @ self.log_time))
        ones = np.ones(self.count)
        sums = shapes.dot(np.column_stack([base, rest, self.known[:, None] * base]))
        width = base.shape[1]
        with_base, score, known_base = sums[:width], sums[width], sums[width + 1 :]
        # A candidate without its projection, `shape - base @ part`, has these products with itself.
        part = inverse @ with_base
        squares = shapes.dot_squares(ones)
        information = squares - _columnwise(with_base, part)
        usable = information > LEAST_INFORMATION
        safe = np.where(usable, information, 1.0)
        log_ratio = np.where(usable, score / safe, 0.0)
        noise, noise_df, between, between_df = self._variances(shapes, log_ratio, found)
        length = squares - 2 * _columnwise(with_base, part) + _columnwise(part, base.T @ base @ part)
        sessions = noise * length / safe**2
        by_card = with_base[-self.cards.shape[1] :] - self.cards.T @ base @ part
        cards = between * _columnwise(by_card, by_card) / safe**2
        by_clock = with_base[-self.cards.shape[1] - 1] - self.clock @ base @ part
        clock = self.noise.value * (by_clock / safe) ** 2
        known = (
            shapes.dot_squares(self.known)
            - 2 * _columnwise(known_base, part)
            + _columnwise(part, (base.T * self.known) @ base @ part)
        )
        total = np.where(usable, sessions + cards + clock + np.maximum(known, 0.0) / safe**2, 1.0)
        # The degrees of freedom of Welch and Satterthwaite, as in `variance.add`.
        spread = np.where(usable, sessions**2 / noise_df + cards**2 / between_df, 1.0)
        return _Scan(
            log_ratio=log_ratio,
            standard_error=np.sqrt(total),
            df=np.where(usable, total**2 / spread, 1.0),
            residual=np.maximum(rest @ self.log_time - np.where(usable, score * log_ratio, 0.0), 0.0),
            information=np.where(usable, information, 0.0),
        )

    def _variances(
        self, shapes: Shapes, log_ratio: Array, found: Sequence[Ramp]
    ) -> tuple[Array, Array, Array, Array]:
        """Estimate the variances between sessions and between cards with each candidate in the model.

        Each is the expected one blended with that of the points; the first is at least half that of the
        points.

        Returns:
            Variance between sessions and its degrees of freedom, variance between cards and its.
        """
        import numpy as np

        # Cards are fixed effects here, so that their differences do not count as noise of the sessions.
        base = np.column_stack([self.cards, self.clock, self._shapes(found).columns()])
        normal = base.T @ base
        normal[self.cards.shape[1], self.cards.shape[1]] += 1.0
        values, vectors = np.linalg.eigh(normal)
        vectors = vectors[:, values > 1e-6] / np.sqrt(values[values > 1e-6])
        inverse = vectors @ vectors.T
        rest = self.log_time - base @ (inverse @ (base.T @ self.log_time))
        sums = shapes.dot(np.column_stack([base, rest]))
        with_base, score = sums[:-1], sums[-1]
        information = shapes.dot_squares(np.ones(self.count)) - _columnwise(with_base, inverse @ with_base)
        inside = information > LEAST_INFORMATION
        residual = rest @ self.log_time - np.where(inside, score**2 / np.where(inside, information, 1), 0.0)
        residual = np.maximum(residual, 0.0)
        # What is expected of the clock's effect counts as one more point, so that effect takes none.
        own_df = np.maximum(self.count + 1 - vectors.shape[1] - inside, 0)
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
        explained = (base.T @ self.log_time)[:, None] - with_base * log_ratio
        effects = (inverse @ explained)[: self.cards.shape[1]]
        spread = np.var(effects, axis=0, ddof=1) - noise * np.mean(1 / self.cards.sum(axis=0))
        # A change that no card has seen both sides of takes the place of a difference between cards.
        spread_df = self.cards.shape[1] - 1 - np.where(inside, 0, 1)
        between_df = self.between.df + spread_df
        between = (self.between.df * self.between.value + spread_df * np.maximum(spread, 0.0)) / between_df
        return noise, noise_df, between, between_df

    def _shapes(self, ramps: Sequence[Ramp]) -> Shapes:
        """Return ramps as shapes of this history."""
        return Shapes.of(self.count, ramps)


def _columnwise(one: Array, other: Array) -> Array:
    """Return the product of each column with the same column of another matrix."""
    import numpy as np

    return np.asarray(np.einsum("ij,ij->j", one, other))


def _each(found: list[Ramp]) -> list[tuple[Ramp, list[Ramp]]]:
    """Return each change with the others."""
    return [(ramp, [other for other in found if other != ramp]) for ramp in found]
