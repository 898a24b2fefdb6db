"""Tests of the analysis of the gate's benchmark, on samples with a known truth and on captured ones."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest
from benchmarks.gate_power.tuning import RESTART_GRID, SESSION_GRID
from scipy.stats import binomtest

from benchmarks.gate_power import restart_rule, rivals, session_rule, tuning
from benchmarks.gate_power.analysis import AGAINST, Summary, analyse, baseline_name
from benchmarks.gate_power.kernels import DOSES_PERMILLE
from benchmarks.gate_power.samples import Line, RestartSample, SessionSample, read
from benchmarks.gate_power.verdicts import FASTER, PASS, SLOWER, Tally, clopper_pearson
from benchmarks.results_file import encode
from gate_samples import a_restart, a_session, samples, summary_of_samples
from pytest_gpuperf.records import ClockModel
from pytest_gpuperf.statistics.decision import Thresholds

CAPTURED = Path(__file__).parent / "noise_samples.jsonl.gz"
"""Noise study of two H200s, with kernels whose doses were not quite exact."""


@pytest.fixture
def summary() -> Summary:
    return summary_of_samples()


@pytest.mark.parametrize(("count", "of"), [(0, 300), (3, 45), (45, 45), (7, 8), (0, 1)])
def test_bounds_match_an_exact_test(count: int, of: int) -> None:
    exact = binomtest(count, of).proportion_ci(0.95, method="exact")
    assert clopper_pearson(count, of) == pytest.approx((exact.low, exact.high))


def test_none_in_three_hundred_is_at_most_1_2_percent() -> None:
    # 1 - 0.025 ** (1 / 300)
    assert clopper_pearson(0, 300) == pytest.approx((0.0, 0.012221), abs=1e-6)


def test_no_trials_give_trivial_bounds() -> None:
    assert clopper_pearson(0, 0) == (0.0, 1.0)


def test_bounds_ignore_repeated_draws() -> None:
    tally = Tally()
    for _ in range(10):
        tally.add("k", None, [PASS] * 100)
    tally.add("k", None, [SLOWER] + [PASS] * 99)
    verdicts = tally.verdicts(None)
    assert (verdicts.found(SLOWER), verdicts.count, sum(verdicts.drawn.values())) == (1, 11, 1100)
    assert verdicts.bounds(SLOWER) == clopper_pearson(1, 11)


def test_sessions_are_judged_against_others_on_their_card() -> None:
    lines = [a_session(at, "k", 0, 10.0, card=f"GPU-{at % 2}") for at in range(8)]
    sessions = session_rule.Sessions(lines)
    for process in range(8):
        others = sessions.others(process)
        assert process not in others
        assert {other % 2 for other in others} == {process % 2}
        assert all(set(draw) <= set(others) for draw in session_rule.draws(others, 2, 8, "seed"))
    assert session_rule.draws([1, 2, 3], 2, 8, "seed") != []
    assert sorted(session_rule.draws([1, 2, 3], 2, 8, "seed")) == [(1, 2), (1, 3), (2, 3)]
    assert session_rule.draws([1, 2], 3, 8, "seed") == []


def test_halves_alternate_processes_of_each_card() -> None:
    lines = [a_session(at, "k", 0, 10.0, card=f"GPU-{at // 4}") for at in range(8)]
    assert session_rule.Sessions(lines).halves() == ([0, 2, 4, 6], [1, 3, 5, 7])


def test_unfinished_process_is_left_out() -> None:
    lines = [a_session(at, kernel, 0, 10.0) for at in range(3) for kernel in ("a", "b")]
    lines += [a_session(3, "a", 0, 10.0), a_session(0, "rare", 0, 10.0)]
    sessions = session_rule.Sessions(lines)
    assert list(sessions.lines) == [0, 1, 2]
    assert sessions.kernels == ["a", "b"]


def test_kernel_is_judged_against_processes_that_have_it() -> None:
    lines = [a_session(at, kernel, 0, 10.0) for at in range(4) for kernel in ("a", "b")]
    lines += [a_session(at, "c", 0, 10.0) for at in (2, 3)]
    sessions = session_rule.Sessions(lines)
    counted = session_rule.judge(sessions, range(4), 1, 9)
    assert counted.verdicts(None, "a").count == 4
    assert counted.verdicts(None, "c").count == 2
    assert sum(counted.verdicts(None, "c").drawn.values()) == 2


def test_power_limited_kernel_needs_a_clock_model() -> None:
    lines = [a_session(at, kernel, 0, 10.0) for at in range(3) for kernel in ("a", "b", "matmul bf16")]
    model = ClockModel(cycles=15_000, fixed_us=2.0, reference_mhz=1900, share_error=0.02)
    at_one_clock = msgspec.structs.replace(lines[2].timing, clock_model=model)
    lines[2] = msgspec.structs.replace(lines[2], timing=at_one_clock)
    sessions = session_rule.Sessions(lines)
    assert [len(sessions.of(process)) for process in range(3)] == [3, 2, 2]
    assert sessions.without_clock == {1, 2}


def test_each_new_measurement_has_one_verdict(summary: Summary) -> None:
    baseline, against = (
        next(rule for rule in summary.held_out.rules if rule.name == name)
        for name in (baseline_name(5), AGAINST)
    )
    assert summary.held_out.processes == 6
    # Three kernels, five doses, six processes; two doses against themselves in one series of restarts.
    assert baseline.unchanged.count == 3 * 5 * 6
    assert baseline.doses["10"].count == 3 * 6
    assert sum(baseline.unchanged.drawn.values()) == tuning.DRAWS * baseline.unchanged.count
    assert against.unchanged.count == 3 * 2
    assert against.doses["10"].count == 3
    assert summary.everything.rules[2].unchanged.count == 2 * baseline.unchanged.count


def test_five_percent_is_found_without_false_alarms(summary: Summary) -> None:
    for rule in summary.everything.rules:
        if rule.name.startswith("baseline of") or rule.name == AGAINST:
            assert rule.unchanged.drawn_share(SLOWER, FASTER) == 0
            assert rule.doses["10" if rule.name == AGAINST else "50"].drawn_share(SLOWER) == 1


def test_restarts_find_one_percent_at_known_cost(summary: Summary) -> None:
    against = next(rule for rule in summary.everything.rules if rule.name == AGAINST)
    assert against.doses["10"].drawn_share(SLOWER) > 0.95
    # Two, four, six or ten restarts of a second each.
    assert 2 <= against.seconds <= 6


def test_fixed_five_percent_finds_nothing_smaller(summary: Summary) -> None:
    rule = next(rule for rule in summary.everything.rules if rule.name == "median of 30 launches + 5 %")
    assert rule.doses["20"].found(SLOWER) == 0
    assert 0 < rule.doses["50"].found(SLOWER) < rule.doses["50"].count


def test_launches_differ_between_processes_of_unchanged_code(summary: Summary) -> None:
    rule = summary.everything.rules[-1]
    assert rule.name.startswith("Mann-Whitney")
    assert rule.unchanged.drawn_share(SLOWER) > 0.3


def test_effect_of_a_dose_is_measured(summary: Summary) -> None:
    assert [each.kernel for each in summary.effects] == ["short", "middle", "long"]
    for each in summary.effects:
        assert each.doses_pct == pytest.approx({"5": 0.5, "10": 1, "20": 2, "50": 5}, abs=0.15)
        assert each.session_sd_pct == pytest.approx(0.15, abs=0.08)
        assert each.restart_sd_pct == pytest.approx(0.15, abs=0.08)


def test_order_of_sides_does_not_widen_the_spread() -> None:
    lines: list[Line] = [a_session(at, "k", 0, 10.0) for at in range(2)]
    lines += [a_restart(at, "k", 0, 0, 0.005 * (-1) ** at) for at in range(6)]
    (effect,) = analyse(lines).effects
    assert effect.restart_sd_pct == 0
    assert effect.raw_restart_sd_pct == pytest.approx(0.55, abs=0.01)


def test_thresholds_are_tuned_on_the_other_half() -> None:
    """A noisy tuning half keeps the expected noise large, although the other half is quiet."""
    quiet, noisy = (samples(sd_pct=sd_pct, restarts=0) for sd_pct in (0.02, 1.5))
    mixed = [
        line
        for lines, half in ((noisy, 0), (quiet, 1))
        for line in lines
        if isinstance(line, SessionSample) and line.process % 2 == half
    ]
    assert analyse(mixed).tuned["session_sd_pct"] >= Thresholds().session_sd_pct
    sessions = session_rule.Sessions(line for line in quiet if isinstance(line, SessionSample))
    choices = tuning.tried(sessions, restart_rule.Restarts([]), Thresholds())
    assert tuning.best(choices, lambda each: each.tuning)["session_sd_pct"] < Thresholds().session_sd_pct


def test_shipped_thresholds_are_tried_first() -> None:
    nothing = analyse([])
    assert nothing.tuned == nothing.tuned_swapped == nothing.shipped


def test_thresholds_on_both_sides_are_tried() -> None:
    for name, values in (SESSION_GRID | RESTART_GRID).items():
        assert min(values) < getattr(Thresholds(), name) < max(values)


def test_baselines_are_rounded_as_in_the_file() -> None:
    """Baselines keep five digits, so sessions that differ in the sixth are equal."""
    lines = [a_session(at, "k", 0, 100.0 + at * 1e-4) for at in range(3)]
    sessions = session_rule.Sessions(lines)
    gate = session_rule._gate(sessions, 0, (1, 2), 0, None)
    stored = next(iter(gate._times.values())).sessions
    assert {session.time_us for session in stored} == {100}


def test_too_short_series_has_no_verdict() -> None:
    lines = [line for line in samples(processes=0, restarts=1) if isinstance(line, RestartSample)]
    counted, seconds = restart_rule.judge(restart_rule.Restarts(lines), [0], 4, Thresholds())
    assert counted.verdicts(None).count == 0
    assert seconds == []


def test_restarts_stop_at_a_decision() -> None:
    def seconds(ratios: list[float]) -> list[float]:
        lines = [a_restart(at, "k", 0, 50, ratio) for at, ratio in enumerate(ratios)]
        return restart_rule.judge(restart_rule.Restarts(lines), range(10), 1, Thresholds())[1]

    assert seconds([0.05] * 10) == [4.0]
    assert seconds([0.0, 0.0, 0.012, 0.012, -0.005, -0.005, 0.01, 0.01, 0.004, 0.004]) == [10.0]


def test_every_second_older_card_and_all_newer_ones_are_held_out() -> None:
    lines = [
        msgspec.structs.replace(a_restart(at, "k", 0, 0, 0.0), card=f"GPU-{at // 1000}")
        for at in (*range(5), 7, 1000, 1001, 2000, 2001, 3000, 3001)
    ]
    restarts = restart_rule.Restarts(lines, newer={"GPU-3"})
    assert restarts.halves() == ([0, 1, 2, 3, 2000, 2001], [1000, 1001, 3000, 3001])


def test_series_has_one_card_and_all_its_restarts() -> None:
    lines = [
        msgspec.structs.replace(a_restart(at, "k", 0, 0, 0.0), card=f"GPU-{at // 1000}")
        for at in (*range(22), *range(1000, 1008))
    ]
    restarts = restart_rule.Restarts(lines)
    counted, _ = restart_rule.judge(restarts, range(2000), 1, Thresholds())
    assert counted.verdicts(None).count == 2
    assert restart_rule.in_series(restarts, range(2000), Thresholds()) == 20


def test_sides_alternate_in_every_order() -> None:
    couples = [(a_restart(at, "k", 0, 0, 0.0), a_restart(at + 1, "k", 0, 0, 0.0)) for at in range(0, 10, 2)]
    orders = [
        [line.restart for line in restart_rule._in_some_order(couples, Random(seed))] for seed in range(20)
    ]
    assert len({tuple(order) for order in orders}) > 10
    for order in orders:
        assert sorted(order) == list(range(10))
        assert len({restart % 2 for restart in order[::2]}) == 1


def test_older_cards_with_fewer_kernels_are_not_of_today() -> None:
    older = [a_session(100 + at, "long", dose, 480.0, "GPU-0") for at in range(12) for dose in DOSES_PERMILLE]
    found = analyse([*samples(), *older])
    assert found.newest == summary_of_samples().newest
    assert found.held_out.processes == 12


def test_same_samples_give_the_same_summary(summary: Summary) -> None:
    assert encode(analyse(samples())) == encode(summary)


def test_rivals_compare_with_one_stored_session() -> None:
    new, same, slower = (a_session(0, "k", 0, time_us) for time_us in (105.1, 105.1, 100.0))
    assert rivals.median_exceeds(new, [same, slower]) == [False, True]
    assert rivals.do_bench_exceeds(new, [same, slower]) == [False, False]  # 108.1 and 103
    assert rivals.launches_differ(new, [same, slower]) == [False, True]


@pytest.fixture(scope="module")
def captured() -> Summary:
    return analyse(read([CAPTURED]))


def test_baselines_find_five_percent_without_false_alarms(captured: Summary) -> None:
    assert (captured.cards, captured.processes) == (2, 6)
    for rule in captured.everything.rules:
        if rule.name.startswith("baseline of"):
            assert rule.unchanged.drawn_share(SLOWER, FASTER) == 0
            assert rule.doses["50"].drawn_share(SLOWER) == 1


def test_rules_on_launches_raise_false_alarms(captured: Summary) -> None:
    rules = {rule.name: rule for rule in captured.everything.rules}
    assert rules["Mann-Whitney on 30 launches, p < 0.05"].unchanged.drawn_share(SLOWER) > 0.2
    assert rules["median of 30 launches + 5 %"].unchanged.drawn_share(SLOWER) > 0
    assert rules["do_bench + 5 %"].doses["20"].drawn_share(SLOWER) == 0


def test_loop_remainders_take_longer_than_their_dose(captured: Summary) -> None:
    """Counts must be multiples of the unrolling: 2,010 iterations took 1.4 % longer."""
    short = next(each for each in captured.effects if each.kernel == "fma_short")
    assert short.doses_pct["5"] > 1
    copied = next(each for each in captured.effects if each.kernel == "copy")
    assert copied.doses_pct["5"] == pytest.approx(0.5, abs=0.1)
