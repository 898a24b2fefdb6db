"""From an estimated change of a time and its error to an outcome.

Times are compared as natural logarithms, so that a difference is a relative change; options and output are
in %. NumPy and SciPy are imported only when a change is decided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

import msgspec

MAX_TOLERANCE_PCT = 1000
"""Largest slowdown that a tolerance may accept, in %."""


class Outcome(str, Enum):
    """Outcome of comparing a time with its baseline."""

    PASS = "pass"  # noqa: S105
    """A slowdown that matters is ruled out."""
    IMPROVED = "improved"
    """Faster, beyond what noise and the indifference zone explain."""
    REGRESSED = "regressed"
    """Slower, beyond what noise and the indifference zone explain."""
    INCONCLUSIVE = "inconclusive"
    """None of these is certain: more sessions, or `--gpuperf-against`, can tell."""


@dataclass(frozen=True)
class Thresholds:
    """Size of a change that counts, certainty of a verdict, and noise to expect before it is measured.

    The guesses are standard deviations of a time in %. A guess with `n` degrees of freedom weighs as much as
    `n + 1` measured sessions, and counts less as real ones come in. The guesses for sessions and restarts
    were tuned on half of the samples, and raise no false alarm in the other half
    (`docs/explanation/gate.md`).
    """

    indifference_pct: float = 0.25
    """Largest change that counts as none: graphs of one kernel differ by 0.02 to 0.2 % between fresh
    processes on an H200."""
    loss_pct: float = 1.0
    """Slowdown that a pass rules out if the noise allows it: the margin of a non-inferiority test."""
    widest_loss_pct: float = 5.0
    """Largest slowdown that a pass may leave open, however noisy the baseline is; a fixed limit that raises
    no false alarms is as wide."""
    alpha: float = 0.05
    """One-sided level of the bounds of a change; 5 % is usual."""
    beta: float = 0.10
    """Share of slowdowns of the detectable size that may be missed: a power of 90 %."""
    false_discovery_rate: float = 0.01
    """Share of runs of unchanged code in which any test is called slower, and the same for faster.

    Y. Benjamini and Y. Hochberg, J. R. Stat. Soc. B 57 (1995) 289: if nothing has changed, that is the
    rate of false discoveries.
    """
    session_sd_pct: float = 0.25
    """Guess of the spread between sessions on one card. Steady kernels spread by 0.01 to 0.15 % there at one
    clock, and by 0.01 to 0.25 % in `tests/data/noise_sessions.json`. The spread between days is in
    neither; it counts once sessions show it."""
    session_sd_us: float = 0.02
    """The same in microseconds, for kernels so short that this is more: one tick of `%globaltimer` is 0.032
    µs, and warm batches of a kernel of 1.2 µs spread by 1 %."""
    replicated_share: float = 0.6
    """Part of both guesses that counts for a test with several sessions: its own spread is known, so that the
    guess need not cover a noisy one. Tuned on half of the samples of H200s."""
    host_sd_pct: float = 5.0
    """The same for times by the host's clock, launches included. Eager calls of a hundred launches and more
    spread by 2 to 7 % between most sessions, and by 37 % while the host was busy with other work
    (`baselines/nvidia-h200/test_token_reduction.json`)."""
    host_widest_loss_pct: float = 50.0
    """`widest_loss_pct` for times by the host's clock: with less, hardly any could pass."""
    session_df: float = 3
    """Degrees of freedom of `session_sd_pct`, the only estimate if a test has one session: it weighs as much
    as four sessions. With 6, unchanged code was called slower."""
    card_sd_pct: float = 1.0
    """Guess of the spread between cards: two H200s differed by 0.2 % (arithmetic), 0.5 % (a copy) and
    2 to 5 % (a matrix product at the power limit)."""
    card_df: float = 4
    """Degrees of freedom of `card_sd_pct`: five cards outweigh it."""
    host_card_sd_pct: float = 40.0
    """`card_sd_pct` for times by the host's clock, as another card may sit in another host: unchanged code
    launched one by one took 84 % longer on a second machine with H200s than on the baseline's."""
    host_card_df: float = 1
    """`card_df` for times by the host's clock: cards of one host agree, so the guess has to give way soon."""
    restart_sd_pct: float = 0.2
    """Guess of the spread of the ratio between restarts of one order: less than between two sessions, as both
    sides share the state of the GPU. On H200s it is 0.02 to 0.17 %, with a rare restart 3 % off."""
    restart_df: float = 2
    """Degrees of freedom of `restart_sd_pct`: five restarts outweigh it."""
    restart_indifference_pct: float = 0.15
    """`indifference_pct` of a comparison in turn, whose sides share the state of the GPU: means of ten
    restarts of unchanged kernels differ from 0 by no more than their noise, 0.08 % on three cards and 0.17 %
    on a fourth. Of the values tried, 0.1 would find a little more, also without a false alarm."""
    looks: tuple[int, ...] = (4, 6, 10)
    """Numbers of restarts after which a comparison in turn may end. They are even, as the sides go ahead in
    turn."""
    pass_look: int = 2
    """Number of restarts, below the first look, after which a comparison may pass. It calls nothing slower or
    faster there: hardly any of that level may be spent so early."""
    pass_share: float = 0.25
    """Part of `alpha` that is spent at `pass_look`."""

    def of(self, mode: str) -> Thresholds:
        """Return the thresholds for times of a mode."""
        if mode != "host":
            return self
        return replace(
            self,
            session_sd_pct=self.host_sd_pct,
            replicated_share=1.0,
            card_sd_pct=self.host_card_sd_pct,
            card_df=self.host_card_df,
            widest_loss_pct=self.host_widest_loss_pct,
        )


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Result of a comparison.

    Changes are of the time, new against old, in %; slower is positive.
    """

    outcome: Outcome
    change_pct: float
    """The estimate."""
    low_pct: float
    """Lower bound of the change, one-sided at `Thresholds.alpha` or a look's part of it."""
    high_pct: float
    """Upper bound of the change, at the same level."""
    detectable_pct: float
    """Slowdown that a test of this one time at that level detects with a power of `1 - beta`. Among many
    tests it takes more to be called `regressed`; a slowdown of this size is at least inconclusive, except for
    a share `alpha` of the cases."""
    replicates: int
    """Number of stored sessions, or of restarts, in the estimate."""
    new_card: bool = False
    """True if no stored session is from the card of the new one, so that the spread between cards counts."""
    as_measured: bool = False
    """True if a decision on restarts is based on the times as measured, not on those at one clock."""


class Estimate(msgspec.Struct, frozen=True, gc=False):
    """Estimated change with its error, as a t distribution."""

    log_ratio: float
    """Natural logarithm of new over old time."""
    standard_error: float
    """Standard error of `log_ratio`, above 0."""
    df: float
    """Degrees of freedom of `standard_error`, not always whole."""
    replicates: int
    new_card: bool = False

    def is_slower(self, thresholds: Thresholds, level: float) -> bool:
        """Return True if the change is significantly above `+indifference_pct`."""
        return self.log_ratio > 0 and self.p_slower(thresholds) <= level

    def is_faster(self, thresholds: Thresholds, level: float) -> bool:
        """Return True if the change is significantly below `-indifference_pct`."""
        return self.log_ratio < 0 and self.p_faster(thresholds) <= level

    def p_slower(self, thresholds: Thresholds) -> float:
        """Return the one-sided p-value of the change against `+indifference_pct`."""
        return self._tail(self.log_ratio - math.log1p(thresholds.indifference_pct / 100))

    def p_faster(self, thresholds: Thresholds) -> float:
        """Return the one-sided p-value of the change against `-indifference_pct`."""
        return self._tail(-self.log_ratio - math.log1p(thresholds.indifference_pct / 100))

    def _tail(self, difference: float) -> float:
        from scipy.special import stdtr

        return float(stdtr(self.df, -difference / self.standard_error))

    def margin(self, level: float) -> float:
        """Return the standard error times the upper `level` quantile of t."""
        return -_t_quantile(self.df, level) * self.standard_error


def decide(
    estimate: Estimate,
    thresholds: Thresholds,
    *,
    slower: bool,
    faster: bool,
    alpha: float,
    tolerance_pct: float = 0.0,
    last: bool = True,
) -> Decision:
    """Call an estimate `regressed`, `improved`, `pass` or `inconclusive`.

    A pass is a test of non-inferiority: the upper bound of the change is below `loss_pct`. If sessions are
    too few or too noisy for that, the detectable change takes the place of `loss_pct`, up to
    `widest_loss_pct`.

    Args:
        estimate: The change.
        thresholds: The thresholds to apply.
        slower: True if the change is significantly above `+indifference_pct`, all other tests considered.
        faster: True if it is significantly below `-indifference_pct`.
        alpha: One-sided level of the bounds.
        tolerance_pct: Slowdown that is accepted, in %; 0 leaves it to statistics.
        last: False if more restarts may follow: then only a clear change is decided.
    """
    change_pct = _pct(estimate.log_ratio)
    margin = estimate.margin(alpha)
    high_pct = _pct(estimate.log_ratio + margin)
    smallest_pct = _pct(
        math.log1p(thresholds.indifference_pct / 100) + margin + estimate.margin(thresholds.beta)
    )
    tolerated = tolerance_pct > 0 and change_pct <= tolerance_pct
    wanted_pct = max(thresholds.loss_pct, tolerance_pct)
    if last:
        passes = tolerated or high_pct < max(wanted_pct, min(smallest_pct, thresholds.widest_loss_pct))
    else:
        # A possible change is worth the restarts that are left.
        unchanged = (
            -thresholds.indifference_pct <= change_pct <= max(thresholds.indifference_pct, tolerance_pct)
        )
        passes = high_pct < wanted_pct and unchanged
    if slower and not tolerated:
        outcome = Outcome.REGRESSED
    elif faster:
        outcome = Outcome.IMPROVED
    else:
        outcome = Outcome.PASS if passes else Outcome.INCONCLUSIVE
    return Decision(
        outcome=outcome,
        change_pct=change_pct,
        low_pct=_pct(estimate.log_ratio - margin),
        high_pct=high_pct,
        detectable_pct=smallest_pct,
        replicates=estimate.replicates,
        new_card=estimate.new_card,
    )


@lru_cache(maxsize=64)
def _t_quantile(df: float, level: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, level))


def _pct(log_ratio: float) -> float:
    return 100 * math.expm1(log_ratio)
