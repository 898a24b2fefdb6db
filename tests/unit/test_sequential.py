"""Old and new code in turn on one GPU: looks and decision."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from pytest_gpuperf.statistics.decision import Decision, Outcome, as_pct
from pytest_gpuperf.statistics.sequential import LOSS_PCT, decide_restarts
from pytest_gpuperf.statistics.thresholds import LOOKS


def compared(rng: np.random.Generator, change_pct: float, sd_pct: float) -> Decision:
    """Add restarts until a decision, like `--gpuperf-against`."""
    ratios: list[float] = []
    for look in LOOKS:
        more = math.log1p(change_pct / 100) + sd_pct / 100 * rng.standard_normal(look - len(ratios))
        ratios += [float(ratio) for ratio in more]
        decision = decide_restarts(ratios)
        if decision.outcome is not Outcome.INCONCLUSIVE:
            break
    return decision


def share(outcome: Outcome, change_pct: float, sd_pct: float, runs: int) -> float:
    rng = np.random.default_rng(int(100 * sd_pct))
    outcomes = Counter(compared(rng, change_pct, sd_pct).outcome for _ in range(runs))
    return outcomes[outcome] / runs


@pytest.mark.parametrize(
    ("change_pct", "sd_pct", "outcome", "least"),
    [
        (0.0, 0.3, Outcome.PASS, 0.99),
        (0.5, 0.05, Outcome.REGRESSED, 0.9),
        (1.0, 0.15, Outcome.REGRESSED, 0.95),
        # An early look does not end a speed-up as a pass.
        (-1.0, 0.15, Outcome.IMPROVED, 0.95),
    ],
)
def test_change_is_found_in_most_comparisons(
    change_pct: float, sd_pct: float, outcome: Outcome, least: float
) -> None:
    assert share(outcome, change_pct, sd_pct, 400) >= least


@pytest.mark.parametrize("sd_pct", [0.3, 0.8])
def test_unchanged_code_is_not_called_slower(sd_pct: float) -> None:
    assert share(Outcome.REGRESSED, 0.0, sd_pct, 600) == 0


def test_unchanged_code_passes_after_two_restarts() -> None:
    """Let the side that goes ahead shift the time by 0.4 %, as for a sum over rows on an H200."""
    decision = decide_restarts([0.004, -0.0038])
    assert (decision.outcome, decision.replicates) == (Outcome.PASS, 2)
    assert decision.high_pct < LOSS_PCT


def test_two_restarts_pass_only_if_both_clocks_agree() -> None:
    assert decide_restarts([0.0, 0.0], raw=[0.001, 0.001]).outcome is Outcome.PASS
    assert decide_restarts([0.0, 0.0], raw=[0.006, 0.006]).outcome is Outcome.INCONCLUSIVE


def test_unclear_result_at_a_look_goes_on() -> None:
    ratios = [0.000, 0.007, 0.008, 0.005]
    assert decide_restarts(ratios).outcome is Outcome.INCONCLUSIVE
    assert decide_restarts(ratios, final=True).replicates == 4


@pytest.mark.parametrize(
    ("work_pct", "outcomes"),
    [(0.0, ["inconclusive", "pass", "pass"]), (0.5, ["inconclusive"] * 3), (1.0, ["inconclusive"] * 3)],
)
def test_first_restarts_that_stand_apart_hide_no_work(work_pct: float, outcomes: list[str]) -> None:
    """Take `test_layer_norm_torch[bf16]` on an H100, whose first restart is 3 % apart from the later ones."""
    unchanged = (0.0180, 0.0097, -0.0139, 0.0112, -0.0116, 0.0124, -0.0125, 0.0109, -0.0117, 0.0102)
    ratios = [ratio + math.log1p(work_pct / 100) for ratio in unchanged]
    assert [decide_restarts(ratios[:count]).outcome.value for count in (2, 4, 6)] == outcomes
    assert decide_restarts(ratios[:4]).replicates == 4


@pytest.mark.parametrize("ratios", [[-0.03, 0.03, 0.03, -0.03], [0.03, -0.01, 0.03, -0.03]])
def test_two_restarts_that_are_far_apart_decide_nothing(ratios: list[float]) -> None:
    assert {decide_restarts(ratios[:count]).outcome for count in (2, 4)} == {Outcome.INCONCLUSIVE}
    # Two more can show that only the order of the sides differs.
    assert decide_restarts([-0.03, 0.03, -0.0302, 0.0301]).outcome is Outcome.PASS


@pytest.mark.parametrize("restarts", [1, 3, 5])
def test_nothing_is_decided_between_looks(restarts: int) -> None:
    assert decide_restarts([0.2] * restarts).outcome is Outcome.INCONCLUSIVE


def test_comparison_cut_short_is_decided_with_its_restarts() -> None:
    assert decide_restarts([0.05, 0.051, 0.05], final=True).outcome is Outcome.REGRESSED
    single = decide_restarts([0.0], final=True)
    assert (single.outcome, single.replicates) == (Outcome.PASS, 1)


def test_the_restart_is_the_replicate() -> None:
    """Check that the guessed variance does not hide a disagreement between restarts."""
    agreeing, disagreeing = decide_restarts([0.01] * 4), decide_restarts([-0.02, -0.02, 0.04, 0.04])
    assert disagreeing.change_pct == pytest.approx(agreeing.change_pct)
    assert disagreeing.high_pct - disagreeing.low_pct > 4 * (agreeing.high_pct - agreeing.low_pct)


def test_which_side_went_ahead_does_not_count() -> None:
    """Shift the ratios by 0.5 % in turn: the shift neither hides a change of 0.8 % nor looks like one."""
    ahead = [0.005, -0.005] * 5
    slower = decide_restarts([0.008 + moved for moved in ahead])
    assert slower.outcome is Outcome.REGRESSED
    assert slower.change_pct == pytest.approx(0.8, abs=0.01)
    assert decide_restarts(ahead[:4]).outcome is Outcome.PASS
    # One more restart with one order does not move the estimate.
    assert decide_restarts(ahead[:5]).change_pct == pytest.approx(0.0)


def test_missing_restart_leaves_the_others_in_their_order() -> None:
    new_first = [False, True, False, False, True, False, True, False, True, True]
    ratios = [-0.005 if new else 0.005 for new in new_first]
    known, alternating = (decide_restarts(ratios, new_first=order) for order in (new_first, ()))
    assert known.change_pct == pytest.approx(0.0)
    assert known.high_pct < 0.2 < alternating.high_pct


def test_code_that_lowers_the_clock_is_slower_at_equal_cycles() -> None:
    at_one_clock, raw = [0.0, 0.0002] * 5, [0.03, 0.031] * 5
    decision = decide_restarts(at_one_clock, raw=raw)
    assert (decision.outcome, decision.as_measured) == (Outcome.REGRESSED, True)
    assert decision.change_pct == pytest.approx(3.1, abs=0.1)
    # An uncertain comparison continues and does not pass.
    assert decide_restarts(at_one_clock[:4], raw=[0.01, 0.012, 0.014, 0.016]).outcome is Outcome.INCONCLUSIVE


def test_clock_noise_hides_no_slowdown() -> None:
    raw = [0.012, 0.009, 0.006, 0.013, 0.010, 0.008, 0.011, 0.012, 0.009, 0.010]
    decision = decide_restarts([0.0101, 0.0099] * 5, raw=raw)
    assert (decision.outcome, decision.as_measured) == (Outcome.REGRESSED, False)


def test_a_slowdown_surely_within_the_tolerance_passes() -> None:
    ratios = [0.02, 0.021, 0.019, 0.02, 0.021, 0.019]
    cases = ((6, 0.0), (6, 3.0), (6, 1.5), (4, 5.0), (4, 2.1))
    found = [decide_restarts(ratios[:count], tolerance_pct).outcome.value for count, tolerance_pct in cases]
    assert found == ["regressed", "pass", "regressed", "pass", "inconclusive"]


def test_disagreement_of_the_times_as_measured_asks_for_more_restarts_up_to_the_last_look() -> None:
    raw = [0.02 + 0.05 * (-1) ** (at // 2) for at in range(12)]
    found = [decide_restarts([0.0] * number, raw=raw[:number]).outcome for number in (4, 6, 10)]
    assert found == [Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE, Outcome.PASS]


@pytest.mark.parametrize(
    ("ratios", "outcome"),
    [
        ([0.40, 0.41], Outcome.REGRESSED),
        ([-0.40, -0.41], Outcome.IMPROVED),
        ([0.041, 0.40], Outcome.REGRESSED),
        ([0.039, 0.40], Outcome.INCONCLUSIVE),
    ],
)
def test_large_change_ends_after_two_restarts(ratios: list[float], outcome: Outcome) -> None:
    found = decide_restarts(ratios)
    assert found.outcome is outcome
    assert found.low_pct <= found.change_pct <= found.high_pct


def test_two_restarts_of_one_order_call_nothing() -> None:
    assert decide_restarts([0.4, 0.41], new_first=[True, True]).outcome is Outcome.INCONCLUSIVE


def test_noisy_comparison_that_rules_out_no_loss_is_not_decided() -> None:
    noisy = decide_restarts([-0.015, -0.015, 0.015, 0.015] * 2, final=True)
    assert (noisy.outcome, noisy.high_pct > LOSS_PCT) == (Outcome.INCONCLUSIVE, True)


def test_agreeing_restarts_keep_the_spread_of_the_samples() -> None:
    found = decide_restarts([0.002] * 10)
    assert 0.05 < found.high_pct - found.change_pct < 0.2


def test_times_by_the_hosts_clock_need_as_much_more() -> None:
    # Restarts of unchanged eager calls on an H100.
    unchanged = ([0.078, -0.151], [0.098, 0.291], [0.265, 0.173])
    found = [decide_restarts(ratios, by_host=True).outcome for ratios in unchanged]
    assert found == [Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE]
    twice = decide_restarts([0.8, 0.6, 0.75, 0.65, 0.7, 0.66], by_host=True)
    assert twice.outcome is Outcome.REGRESSED


def test_change_that_only_a_file_can_have_is_a_number() -> None:
    assert 1e300 < as_pct(1e4) < math.inf
