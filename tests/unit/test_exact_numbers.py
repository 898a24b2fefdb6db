"""Exact numbers of the statistics, for inputs whose results are known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.statistics import variance
from pytest_gpuperf.statistics.clock_model import fit
from pytest_gpuperf.statistics.decision import Decision, Estimate, Outcome, Thresholds, decide
from pytest_gpuperf.statistics.one_session import decide_session
from pytest_gpuperf.statistics.sequential import change_pct
from pytest_gpuperf.statistics.variance import LogTime, Variance

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize(
    ("log_ratios", "new_first", "change"),
    [
        ([math.log(1.02)], (), 2.0),
        (
            [math.log(1.04), math.log(1.04), math.log(0.99)],
            (True, True, False),
            100 * (math.sqrt(1.04 * 0.99) - 1),
        ),
        ([math.log(0.5), math.log(2.0)], (True, False), 0.0),
    ],
)
def test_change_of_known_ratios(log_ratios: list[float], new_first: Sequence[bool], change: float) -> None:
    assert change_pct(log_ratios, new_first) == pytest.approx(change)


# Half of 100 µs at 2000 MHz is SM cycles: a line without noise.
MHZ = (1600.0, 2000.0, 2400.0)
LINE = [50 + 100_000 / mhz for mhz in MHZ]


@pytest.mark.parametrize("times", [2, 8])
def test_error_of_a_share_without_noise_is_that_of_its_bursts(times: int) -> None:
    """Two bursts have an error of 0.2 % each, however many blocks they have."""
    model = fit(LINE * times, MHZ * times, reference_mhz=2000)
    assert model is not None
    assert [model.cycles, model.fixed_us] == pytest.approx([100_000, 50])
    # The slope of three relative times with an error of 0.2 % √(3/2) each, in closed form.
    rows = [(50 * 2000 / mhz / us, 50 / us) for mhz, us in zip(MHZ, LINE, strict=True)]
    aa, ab, bb = (sum(x[i] * x[j] for x in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    variance_of_share = (aa + 2 * ab + bb) / (4 * (aa * bb - ab * ab)) / 4
    assert model.share_error == pytest.approx(0.002 * math.sqrt(3 / 2 * variance_of_share), rel=1e-6)


def test_clock_model_needs_six_blocks_and_a_clock_that_moved() -> None:
    assert fit(LINE * 2, MHZ * 2) is not None
    assert fit((LINE * 2)[:5], (MHZ * 2)[:5]) is None
    # A clock that moves by 0.2 % hardly moves.
    assert fit([100.0] * 6, [1000.0, 1002.0] * 3) is None


def session(time_us: float, error: float = 0.0, card: str = "A") -> LogTime:
    return LogTime(math.log(time_us), card, error)


def decided(
    new: LogTime,
    *stored: LogTime,
    sd: float = 0.01,
    df: float = 1e9,
    comparisons: int = 1,
    tolerance: float = 0.0,
) -> Decision:
    known = Variance(sd**2, 1e9)
    return decide_session(new, stored, known, Thresholds(session_df=1e9), comparisons, tolerance)


def half_width(decision: Decision) -> float:
    """Return the margin of a decision over the 95 % quantile of the normal distribution."""
    return (math.log1p(decision.high_pct / 100) - math.log1p(decision.change_pct / 100)) / 1.6448536


@pytest.mark.parametrize(("count", "noise"), [(1, math.sqrt(2)), (4, math.sqrt(1.25))])
def test_error_of_a_change_has_the_noise_of_both_sides(count: int, noise: float) -> None:
    found = decided(session(102), *[session(100)] * count)
    assert found.change_pct == pytest.approx(2)
    assert half_width(found) == pytest.approx(0.01 * noise, rel=1e-5)
    assert (found.replicates, found.new_card) == (count, False)


def test_error_of_a_change_has_those_of_the_times() -> None:
    found = decided(session(100, 0.03), session(100, 0.04), session(100, 0.12), sd=1e-9)
    assert half_width(found) == pytest.approx(math.sqrt(0.03**2 + 0.02**2 + 0.06**2), rel=1e-5)


def test_level_is_shared_by_all_comparisons() -> None:
    # The p-value of 3 % against 0.25 % with an error of 1 % is 0.0034.
    alone, among = (
        decided(session(103), session(100), sd=0.01 / math.sqrt(2), comparisons=number) for number in (2, 3)
    )
    assert Estimate(math.log(1.03), 0.01, 1e9, 1).p_slower(Thresholds()) == pytest.approx(0.0034, abs=1e-4)
    assert (alone.outcome, among.outcome) == (Outcome.REGRESSED, Outcome.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("tolerance", "outcome"), [(0.0, Outcome.REGRESSED), (4.99, Outcome.REGRESSED), (5.01, Outcome.PASS)]
)
def test_tolerated_slowdown_passes(tolerance: float, outcome: Outcome) -> None:
    assert decided(session(105), session(100), sd=0.001, tolerance=tolerance).outcome is outcome


def test_prior_needs_two_variances() -> None:
    two = [Variance(1.0, 3.0), Variance(1.0, 3.0)]
    assert variance._prior(two[:1]) == []
    (prior,) = variance._prior(two)
    # Two that agree are as good as the most that a prior may count for.
    assert prior.df == variance.MOST_PRIOR_DF


def test_nothing_is_tolerated_unless_asked() -> None:
    found = decide_session(session(100.05), [session(100)], Variance(0.05**2, 1e9), Thresholds(), 1)
    assert found.outcome is Outcome.INCONCLUSIVE


def test_change_of_the_indifference_zone_is_as_likely_noise_as_not() -> None:
    """With hardly any error, the smallest change that is found is that of the zone too."""
    thresholds = Thresholds(indifference_pct=20.0)
    slower, faster = (Estimate(sign * math.log(1.2), 1e-9, 8.0, 4) for sign in (1, -1))
    assert slower.p_slower(thresholds) == pytest.approx(0.5)
    assert faster.p_faster(thresholds) == pytest.approx(0.5)
    found = decide(slower, thresholds, slower=False, faster=False, alpha=0.05)
    assert found.detectable_pct == pytest.approx(20.0)


def test_noisy_sessions_never_narrow_the_bounds_of_a_new_card() -> None:
    known = [*[session(98.5)] * 4, *[session(101.5, card="B")] * 4]
    noisy, quiet = (decided(session(100, card="C"), *known, sd=sd) for sd in (0.01, 1e-6))
    assert noisy.high_pct > quiet.high_pct


def test_spread_between_cards_is_known_as_well_as_from_five() -> None:
    """With no other error, the margin of a new card is that of t with four degrees of freedom."""
    found = decide_session(session(100, card="C"), [session(100)], Variance(1e-12, 1e9), Thresholds(), 1)
    margin = math.sqrt(2) * 0.01 * 2.1318468  # the 95 % quantile of t
    assert math.log1p(found.high_pct / 100) == pytest.approx(margin, rel=1e-4)


def test_error_of_a_share_has_the_noise_of_its_blocks() -> None:
    """Twice the blocks halve the squares of errors, and two of them are spent on the line."""
    noisy = [time * (1 + 0.02 * sign) for sign in (1, -1) for time in LINE]
    six, twelve = (fit(noisy * times, MHZ * 2 * times) for times in (1, 2))
    assert six is not None
    assert twelve is not None
    assert six.share_error / twelve.share_error == pytest.approx(math.sqrt(2 * (6 / 4) / (12 / 10)), rel=0.03)
