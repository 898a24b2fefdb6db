"""A new session compared with stored ones: captures from two H200s, and suites with a known truth."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_gpuperf.statistics.decision import Decision, Estimate, Outcome, Thresholds
from pytest_gpuperf.statistics.one_session import _estimate, decide_session
from pytest_gpuperf.statistics.variance import LogTime, Variance, moderate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

T = Thresholds()
CAPTURED: dict[str, dict[str, float]] = json.loads(
    (Path(__file__).parents[1] / "data" / "noise_sessions.json").read_text()
)
"""Microseconds by process and kernel, from data/noise_sessions.py."""
# Measured without warm-up and clock model: a matrix product at the power limit, and a kernel of 1.5 µs.
UNSTEADY = ("gemm_bf16_4096", "square_small")
STEADY = [kernel for kernel in CAPTURED["gpu1_process1"] if kernel not in UNSTEADY]
DOSED = ("fma_short", "fma_long", "copy")


def captured(process: str, kernel: str) -> LogTime:
    return LogTime(math.log(CAPTURED[process][kernel]), card=process.partition("_")[0])


def each_left_out(
    kernels: Sequence[str], dose: str = "x1.0"
) -> Iterator[tuple[dict[str, LogTime], dict[str, list[LogTime]]]]:
    """Yield each process as new session with the others stored; the new `x1.0` kernels have the dose."""
    for process in CAPTURED:
        new = {
            kernel: captured(
                process, f"{kernel.removesuffix(' x1.0')} {dose}" if kernel.endswith(" x1.0") else kernel
            )
            for kernel in kernels
        }
        others = [other for other in CAPTURED if other != process]
        yield new, {kernel: [captured(other, kernel) for other in others] for kernel in kernels}


def decide_each(
    new: Mapping[str, LogTime], stored: Mapping[str, Sequence[LogTime]], thresholds: Thresholds = T
) -> dict[str, Decision]:
    """Decide one test after the other, like the plugin."""
    variances = moderate(stored, thresholds)
    return {
        key: decide_session(session, stored[key], variances[key], thresholds, len(new))
        for key, session in new.items()
    }


def times(*times_us: float, card: str = "GPU-1") -> list[LogTime]:
    return [LogTime(math.log(time_us), card) for time_us in times_us]


def one(
    new_us: float,
    *stored_us: float,
    sd_pct: float = 0.5,
    df: float = 12,
    comparisons: int = 1,
    tolerance_pct: float = 0.0,
) -> Decision:
    (new,) = times(new_us)
    variance = Variance((sd_pct / 100) ** 2, df)
    return decide_session(new, times(*stored_us), variance, T, comparisons, tolerance_pct)


def test_sessions_of_unchanged_code_on_two_cards_pass() -> None:
    outcomes: Counter[str] = Counter()
    for new, stored in each_left_out(STEADY):
        outcomes.update(decision.outcome.value for decision in decide_each(new, stored).values())
    assert outcomes == {"pass": 6 * 16}


def test_unsteady_kernels_are_never_called_slower() -> None:
    kernels = [*STEADY, *UNSTEADY]
    for new, stored in each_left_out(kernels):
        decisions = decide_each(new, stored)
        assert Outcome.REGRESSED not in {decision.outcome for decision in decisions.values()}
        assert {decisions[kernel].outcome for kernel in STEADY} == {Outcome.PASS}


@pytest.mark.parametrize("dose", ["x1.02", "x1.05"])
def test_slowdowns_of_two_and_five_percent_are_always_found(dose: str) -> None:
    found = [
        decision.outcome
        for new, stored in each_left_out([f"{kernel} x1.0" for kernel in DOSED], dose)
        for decision in decide_each(new, stored).values()
    ]
    assert found == [Outcome.REGRESSED] * 18


def test_slowdown_of_two_percent_among_unchanged_tests_never_passes() -> None:
    slow = [f"{kernel} x1.0" for kernel in DOSED]
    kernels = [*slow, *(kernel for kernel in STEADY if kernel.partition(" ")[0] not in DOSED)]
    for new, stored in each_left_out(kernels, "x1.02"):
        decisions = decide_each(new, stored)
        assert Outcome.PASS not in {decisions[kernel].outcome for kernel in slow}
        assert decisions["softmax"].outcome is Outcome.PASS


def test_a_second_card_is_judged_with_the_spread_between_cards() -> None:
    first = [process for process in CAPTURED if process.startswith("gpu1")]
    stored = {kernel: [captured(process, kernel) for process in first] for kernel in STEADY}
    new = {kernel: captured("gpu2_process1", kernel) for kernel in STEADY}
    for kernel, decision in decide_each(new, stored).items():
        assert (decision.outcome, decision.new_card, decision.replicates) == (Outcome.PASS, True, 4)
        known = [*stored[kernel], captured("gpu2_process2", kernel)]
        on_known_card = decide_each({kernel: new[kernel]}, {kernel: known})[kernel]
        assert (on_known_card.new_card, on_known_card.replicates) == (False, 1)
        assert on_known_card.high_pct < decision.high_pct


def red_runs(rng: np.random.Generator, runs: int, stored: int, *, uneven: bool = False) -> int:
    """Count runs of 200 unchanged tests with a red one; sessions vary by 0.5 %, or unevenly."""
    red = 0
    for _ in range(runs):
        sd = 0.005 * (np.sqrt(6 / rng.chisquare(8, (200, 1))) if uneven else 1.0)
        logs = math.log(50) + sd * rng.standard_normal((200, stored + 1))
        suite = {key: [LogTime(float(log), "GPU-1") for log in row] for key, row in enumerate(logs)}
        baselines = {key: sessions[1:] for key, sessions in suite.items()}
        variances = moderate(baselines, T)
        red += any(
            decide_session(sessions[0], baselines[key], variances[key], T, 200).outcome is Outcome.REGRESSED
            for key, sessions in suite.items()
        )
    return red


@pytest.mark.parametrize("stored", [2, 3, 5, 8])
def test_runs_of_unchanged_code_are_hardly_ever_red(stored: int) -> None:
    assert red_runs(np.random.default_rng(stored), 100, stored) <= 1


def test_unevenly_noisy_runs_are_hardly_ever_red() -> None:
    assert red_runs(np.random.default_rng(0), 200, 2, uneven=True) <= 5


@pytest.mark.parametrize(("new_us", "rules_out_loss"), [(50.0, True), (50.2, False)])
def test_one_stored_session_detects_1_7_percent(new_us: float, rules_out_loss: bool) -> None:
    """Use the guess of 0.25 % twice; 2.353 and 1.638 are the 95 % and 90 % quantiles of t with 3 degrees."""
    decision = decide_each({"k": times(new_us)[0]}, {"k": times(50.0)})["k"]
    error = 0.0025 * math.sqrt(2)
    smallest = math.log(1.0025) + (2.3534 + 1.6377) * error
    assert math.log1p(decision.detectable_pct / 100) == pytest.approx(smallest, rel=1e-4)
    assert decision.detectable_pct == pytest.approx(1.7, abs=0.05)
    # The upper bound is 0.84 % above the change: it rules out a loss of 1 % at no change, but not at 0.4 %.
    assert (decision.outcome, decision.high_pct < T.loss_pct) == (Outcome.PASS, rules_out_loss)


def test_detectable_slowdown_is_found_as_often_as_promised() -> None:
    """Check a single test at `alpha` with variances drawn from their claimed uncertainty."""
    rng = np.random.default_rng(0)
    drawn = [Variance(0.005**2 * float(rng.chisquare(12)) / 12, 12) for _ in range(4000)]
    stored = times(100.0, 100.0, 100.0, 100.0)
    smallest = one(100.0, 100.0, 100.0, 100.0, 100.0).detectable_pct
    found = 0
    for variance in drawn:
        log = math.log(100 * (1 + smallest / 100)) + 0.005 * math.sqrt(1 + 1 / 4) * float(
            rng.standard_normal()
        )
        found += _estimate(LogTime(log, "GPU-1"), stored, variance, T).is_slower(T, T.alpha)
    assert found / len(drawn) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(
    ("new_us", "outcome"),
    [
        (97.0, Outcome.IMPROVED),
        (99.9, Outcome.PASS),
        (101.2, Outcome.INCONCLUSIVE),
        (103.0, Outcome.REGRESSED),
    ],
)
def test_outcome_follows_the_change(new_us: float, outcome: Outcome) -> None:
    decision = one(new_us, 100.0, 100.0, 100.0, 100.0)
    assert decision.outcome is outcome
    assert decision.change_pct == pytest.approx(new_us - 100)
    assert decision.low_pct < decision.change_pct < decision.high_pct


def test_bounds_are_those_of_a_t_test() -> None:
    decision = one(102.0, 100.0, 100.0, 100.0, sd_pct=0.5, df=12)
    error = 0.005 * math.sqrt(1 + 1 / 3)
    # 1.782 is the 95 % quantile of t with 12 degrees of freedom, 1.356 the 90 % one.
    assert math.log1p(decision.high_pct / 100) == pytest.approx(math.log(1.02) + 1.7823 * error, rel=1e-4)
    assert math.log1p(decision.low_pct / 100) == pytest.approx(math.log(1.02) - 1.7823 * error, rel=1e-3)
    smallest = math.log(1.0025) + (1.7823 + 1.3562) * error
    assert math.log1p(decision.detectable_pct / 100) == pytest.approx(smallest, rel=1e-4)


def test_certain_change_within_the_indifference_zone_passes() -> None:
    slower, faster = (one(new, 100.0, 100.0, sd_pct=0.001) for new in (100.24, 99.76))
    assert (slower.outcome, faster.outcome) == (Outcome.PASS, Outcome.PASS)
    assert one(100.27, 100.0, 100.0, sd_pct=0.001).outcome is Outcome.REGRESSED


def test_pass_of_quiet_test_rules_out_loss() -> None:
    assert one(100.0, 100.0, 100.0, 100.0, sd_pct=0.2).high_pct < T.loss_pct


def test_a_pass_never_leaves_open_more_than_the_widest_loss() -> None:
    decision = one(100.0, 100.0, sd_pct=3.0)
    assert decision.detectable_pct > decision.high_pct > T.widest_loss_pct
    assert decision.outcome is Outcome.INCONCLUSIVE


def test_more_tests_need_a_larger_slowdown() -> None:
    outcomes = [one(102.5, 100.0, 100.0, 100.0, comparisons=n).outcome for n in (1, 200)]
    assert outcomes == [Outcome.REGRESSED, Outcome.INCONCLUSIVE]


def test_changes_of_one_test_are_significant_in_the_suite() -> None:
    from scipy.stats import false_discovery_control

    called = 0
    for dose in ("x1.005", "x1.01", "x1.02", "x1.05"):
        for new, stored in each_left_out(STEADY, dose):
            decisions, variances = decide_each(new, stored), moderate(stored, T)
            estimates = [_estimate(new[key], stored[key], variances[key], T) for key in decisions]
            for outcome, p in ((Outcome.REGRESSED, Estimate.p_slower), (Outcome.IMPROVED, Estimate.p_faster)):
                # the method of Benjamini and Hochberg over the suite
                adjusted = false_discovery_control([p(each, T) for each in estimates])
                together = dict(zip(decisions, adjusted <= T.false_discovery_rate, strict=True))
                alone = [kernel for kernel, decision in decisions.items() if decision.outcome is outcome]
                called += len(alone)
                assert all(together[kernel] for kernel in alone)
    assert called > 18


def test_sessions_of_the_same_card_exclude_other_cards() -> None:
    stored = [*times(100.0, 100.0), *times(90.0, 90.0, 90.0, card="GPU-2")]
    decision = decide_session(times(100.0)[0], stored, Variance(0.005**2, 12), T, 1)
    assert decision.change_pct == pytest.approx(0.0)
    assert decision.replicates == 2


def test_cards_weigh_the_same_for_a_new_card() -> None:
    stored = [*times(100.0, 100.0, 100.0), *times(102.0, card="GPU-2")]
    (new,) = times(math.sqrt(100.0 * 102.0), card="GPU-3")
    decision = decide_session(new, stored, Variance(0.005**2, 12), T, 1)
    assert decision.change_pct == pytest.approx(0.0)
    assert decision.replicates == 4


def test_the_spread_between_cards_is_learnt_from_several() -> None:
    cards = [f"GPU-{card}" for card in range(8)]
    (new,) = times(100.0, card="GPU-9")

    def width(per_card_pct: float, sd_pct: float) -> float:
        stored = [
            session
            for at, card in enumerate(cards)
            for session in times(*[100 * (1 + per_card_pct / 100) ** (at % 2)] * 3, card=card)
        ]
        decision = decide_session(new, stored, Variance((sd_pct / 100) ** 2, 12), T, 1)
        return decision.high_pct - decision.low_pct

    (guessed,) = times(100.0, card="GPU-0")
    unknown = decide_session(new, [guessed], Variance(0.002**2, 12), T, 1)
    assert width(0.0, 0.2) < width(3.0, 0.2)
    assert width(0.0, 0.2) < (unknown.high_pct - unknown.low_pct) / 2
    # Cards that differ by 1 % are within the noise of three sessions that vary by 1 %.
    assert width(1.0, 1.0) == pytest.approx(width(0.0, 1.0), rel=0.01)


@pytest.mark.parametrize("errors", [(0.01, 0.0), (0.0, 0.01)])
def test_error_of_normalisation_widens_the_bounds(
    errors: tuple[float, float],
) -> None:
    sure, unsure = (
        decide_session(
            LogTime(math.log(100), "GPU-1", new),
            [LogTime(math.log(100), "GPU-1", stored)],
            Variance(0.005**2, 12),
            T,
            1,
        )
        for new, stored in ((0.0, 0.0), errors)
    )
    assert unsure.high_pct > 1.5 * sure.high_pct


class TestTolerance:
    """Tests of an accepted slowdown."""

    def test_a_sure_slowdown_within_it_passes(self) -> None:
        stored = (100.0, 100.0, 100.0)
        assert one(103.0, *stored, sd_pct=0.2).outcome is Outcome.REGRESSED
        assert one(103.0, *stored, sd_pct=0.2, tolerance_pct=4.0).outcome is Outcome.PASS

    def test_a_sure_slowdown_beyond_it_is_a_regression(self) -> None:
        assert one(104.1, 100.0, 100.0, sd_pct=0.2, tolerance_pct=4.0).outcome is Outcome.REGRESSED

    def test_slowdown_surely_within_it_passes(self) -> None:
        decision = one(101.5, 100.0, 100.0, 100.0, tolerance_pct=4.0)
        assert decision.outcome is Outcome.PASS
        assert T.loss_pct < decision.high_pct < 4.0

    def test_unsure_slowdown_within_it_passes(self) -> None:
        decision = one(103.9, 100.0, sd_pct=3.0, tolerance_pct=4.0)
        assert decision.outcome is Outcome.PASS
        assert decision.high_pct > 4.0

    def test_an_unsure_slowdown_beyond_it_is_inconclusive(self) -> None:
        assert one(104.1, 100.0, sd_pct=3.0, tolerance_pct=4.0).outcome is Outcome.INCONCLUSIVE

    def test_it_does_not_hide_an_improvement(self) -> None:
        assert one(97.0, 100.0, 100.0, sd_pct=0.2, tolerance_pct=4.0).outcome is Outcome.IMPROVED


def test_decisions_can_be_read_without_numpy() -> None:
    code = (
        "import sys; import pytest_gpuperf.statistics.one_session, pytest_gpuperf.statistics.sequential;"
        "import pytest_gpuperf.statistics.clock_model;"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'scipy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("card", "outcome"), [("A", Outcome.REGRESSED), ("C", Outcome.INCONCLUSIVE)])
def test_time_by_the_clock_of_another_host_is_not_called_slower(card: str, outcome: Outcome) -> None:
    """Read on a second host with H200s: 5019 µs, and 2729 µs in the baseline."""
    thresholds = T.of("host")
    stored = [LogTime(math.log(us), card=card) for us, card in ((2729, "A"), (2740, "A"), (2720, "B"))]
    variance = moderate({"host": stored}, thresholds)["host"]
    new = LogTime(math.log(5019), card=card)
    assert decide_session(new, stored, variance, thresholds, 1, 50).outcome is outcome


def test_hosts_that_agree_are_soon_believed() -> None:
    thresholds = T.of("host")
    stored = [LogTime(math.log(100 + number % 2), card=str(number)) for number in range(8)]
    variance = moderate({"host": stored}, thresholds)["host"]
    decision = decide_session(LogTime(math.log(160), card="new"), stored, variance, thresholds, 1, 50)
    assert (decision.new_card, decision.outcome) == (True, Outcome.REGRESSED)
