"""Tests of the analysis of the gate's benchmark, on samples with a known truth and on captured ones."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest
from scipy.stats import binomtest

from benchmarks.gate_power import restart_rule, rivals, session_rule
from benchmarks.gate_power.analysis import Summary, analyse, rules_before
from benchmarks.gate_power.kernels import BY_HOST, DOSES_PERMILLE
from benchmarks.gate_power.sample import PAIRS
from benchmarks.gate_power.samples import Line, RestartSample, SessionSample, read, suspects
from benchmarks.gate_power.session_rule import FULL_CLOCK, HOST
from benchmarks.gate_power.verdicts import FASTER, INCONCLUSIVE, PASS, SLOWER, Tally, clopper_pearson
from benchmarks.results_file import encode
from gate_samples import a_restart, a_session, samples, summary_of_samples
from pytest_gpuperf.records import ClockModel
from run_builders import in_turn, measured, record, run

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
        tally.add("k", None, "GPU-1", [PASS] * 100)
    tally.add("k", None, "GPU-1", [SLOWER] + [PASS] * 99)
    verdicts = tally.verdicts(None)
    assert (verdicts.found(SLOWER), verdicts.count, sum(verdicts.drawn.values())) == (1, 11, 1100)


def test_suspects_that_runs_settled_are_judged_by_card() -> None:
    slower, alike = in_turn(measured(), 0.05, 0.051), in_turn(measured(), 0.0, 0.001)
    records = [record(f"t.py::test_{at}", main=one) for at, one in enumerate((slower, alike, measured()))]
    on_cards = [msgspec.structs.replace(one, gpu_uuid=f"GPU-{one.nodeid}") for one in records]
    [found] = analyse(suspects(run(*on_cards))).in_turn
    assert found.unchanged.apart == {PASS: 1, SLOWER: 1}
    assert found.unchanged.on_cards == [(1, 1), (0, 1)]


def test_bounds_by_card_are_wider_if_one_card_has_all() -> None:
    spread, one = Tally(), Tally()
    for card in range(20):
        spread.add("k", None, f"GPU-{card}", [SLOWER] + [PASS] * 19)
        one.add("k", None, f"GPU-{card}", [PASS if card else SLOWER] * 20)
    assert spread.verdicts(None).bounds_by_card() == (0.05, 0.05)
    low, high = one.verdicts(None).bounds_by_card()
    assert low == 0
    assert 0.1 <= high <= 0.25


def test_bounds_by_process_are_wider_than_by_verdict() -> None:
    tally = Tally()
    for process in range(20):
        for kernel in range(20):
            tally.add(f"{kernel}", None, "GPU-1", [PASS if process else SLOWER], process)
    verdicts = tally.verdicts(None)
    assert verdicts.by_process is not None
    assert verdicts.by_process[1] > clopper_pearson(20, 400)[1] * 1.5


def test_without_a_slower_verdict_cards_are_the_trials() -> None:
    tally = Tally()
    for card in range(4):
        tally.add("k", None, f"GPU-{card}", [PASS] * 100)
    assert tally.verdicts(None).bounds_by_card() == clopper_pearson(0, 4)


def test_robust_rule_needs_a_gap_in_cycles() -> None:
    def at_clock(session: SessionSample, mhz: float) -> SessionSample:
        timing = msgspec.structs.replace(session.timing, blocks_mhz=(mhz,) * 10)
        return msgspec.structs.replace(session, timing=timing)

    old, new = (at_clock(a_session(at, "k", 0, 10 + at / 5), 1980) for at in range(2))
    assert rivals.clear_gap([new], [(old,)]) == [True]
    assert rivals.clear_gap([at_clock(new, 1930)], [(old,)]) == [False]
    assert rivals.clear_gap([old], [(new,)]) == [False]


def test_three_sigma_needs_the_spread_of_the_sessions() -> None:
    known = tuple(a_session(at, "k", 0, 10.0 + at / 10) for at in range(5))
    assert rivals.three_sigma([a_session(5, "k", 0, 10.6)], [known]) == [False]
    assert rivals.three_sigma([a_session(5, "k", 0, 10.7)], [known]) == [True]


def test_rules_of_the_former_gate_are_read() -> None:
    former = rules_before(Path(__file__).parents[1] / "results" / "gate_power_fc9efc0.json")
    assert [rule.name for rule in former] == [
        f"gate of fc9efc0, {n}" for n in ("1 session", "3 sessions", "5 sessions")
    ]


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


def test_unfinished_process_is_left_out() -> None:
    lines = [a_session(at, kernel, 0, 10.0) for at in range(3) for kernel in ("a", "b")]
    lines += [a_session(3, "a", 0, 10.0), a_session(0, "rare", 0, 10.0)]
    sessions = session_rule.Sessions(lines)
    assert list(sessions.lines) == [0, 1, 2]
    assert sessions.kernels == ["a", "b"]


def test_power_limited_kernel_needs_a_clock_model() -> None:
    lines = [a_session(at, kernel, 0, 10.0) for at in range(3) for kernel in ("a", "b", "matmul bf16")]
    model = ClockModel(cycles=15_000, fixed_us=2.0, reference_mhz=1900, share_error=0.02)
    at_one_clock = msgspec.structs.replace(lines[2].timing, clock_model=model)
    lines[2] = msgspec.structs.replace(lines[2], timing=at_one_clock)
    sessions = session_rule.Sessions(lines)
    assert [len(sessions.of(process)) for process in range(3)] == [3, 2, 2]
    assert sessions.without_clock == {1, 2}


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


def test_suspects_of_a_card_and_of_another_are_counted(summary: Summary) -> None:
    one, _, five = (rule for rule in summary.screens if rule.name.endswith(FULL_CLOCK))
    # Three kernels, five doses, twelve processes.
    assert (one.name, one.unchanged.count) == (f"1 session of the card, {FULL_CLOCK}", 3 * 5 * 12)
    assert one.unchanged.drawn_share(SLOWER, FASTER) < 0.05
    assert one.doses["20"].drawn_share(SLOWER) == 1
    assert five.doses["10"].drawn_share(SLOWER) > 0.9


def test_fresh_processes_and_restarts_settle_suspects(summary: Summary) -> None:
    (fresh,), (turn,) = summary.fresh, summary.in_turn
    for rule in (fresh, turn):
        assert rule.unchanged.drawn_share(SLOWER, FASTER) < 0.01
        assert rule.doses["10"].drawn_share(SLOWER) > 0.5
    assert 2 <= turn.seconds <= 10


def test_other_cards_are_of_the_same_model() -> None:
    lines = [a_session(at, "k", 0, 10.0, card=f"GPU-{at % 3}") for at in range(9)]
    lines.append(a_session(9, "other", 0, 10.0, card="GPU-3"))
    models = {"GPU-0": "h200", "GPU-1": "h200", "GPU-2": "h100", "GPU-3": "h200"}
    sessions = session_rule.Sessions(lines, models)
    assert {sessions.card(other) for other in sessions.of_other_cards(0)} == {"GPU-1"}


def test_too_short_series_has_no_verdict() -> None:
    lines = [line for line in samples(processes=0, restarts=1) if isinstance(line, RestartSample)]
    counted, seconds = restart_rule.judge(restart_rule.Restarts(lines), 4)
    assert (counted.verdicts(None).count, seconds) == (0, [])


def test_restarts_stop_at_a_decision() -> None:
    def seconds(ratios: list[float]) -> list[float]:
        lines = [a_restart(at, "k", 0, 50, ratio) for at, ratio in enumerate(ratios)]
        return restart_rule.judge(restart_rule.Restarts(lines), 1)[1]

    assert seconds([0.05] * 10) == [2.0]
    assert seconds([0.0, 0.0, 0.012, 0.012, -0.005, -0.005, 0.01, 0.01, 0.004, 0.004]) == [10.0]


def test_verdicts_on_unchanged_code_follow_each_other() -> None:
    ratios = [0.0, 0.0, 0.004, 0.004, -0.004, -0.004, 0.003, 0.003]
    lines = [a_restart(at, "k", 0, 0, ratio) for at, ratio in enumerate(ratios)]
    counted, seconds = restart_rule.judge(restart_rule.Restarts(lines), 1)
    # The second takes four restarts, and the last one is cut off.
    assert counted.verdicts(None).apart == {INCONCLUSIVE: 1, PASS: 2}
    assert seconds == [2.0, 4.0]


def test_sides_alternate_in_every_order() -> None:
    couples = [(a_restart(at, "k", 0, 0, 0.0), a_restart(at + 1, "k", 0, 0, 0.0)) for at in range(0, 10, 2)]
    orders = [
        [line.restart for line in restart_rule._in_some_order(couples, Random(seed))] for seed in range(20)
    ]
    assert len({tuple(order) for order in orders}) > 10
    for order in orders:
        assert sorted(order) == list(range(10))
        assert len({restart % 2 for restart in order[::2]}) == 1


def test_same_samples_give_the_same_summary(summary: Summary) -> None:
    assert encode(analyse(samples())) == encode(summary)


def test_rivals_compare_with_one_stored_session() -> None:
    one, same, slower = (a_session(0, "k", 0, time_us) for time_us in (105.1, 105.1, 100.0))
    new, baselines = [one, one], [(same,), (slower,)]
    assert rivals.median_exceeds(new, baselines) == [False, True]
    assert rivals.do_bench_exceeds(new, baselines) == [False, False]  # 108.1 and 103
    assert rivals.launches_differ(new, baselines) == [False, True]


@pytest.fixture(scope="module")
def captured() -> Summary:
    return analyse(read([CAPTURED]))


def test_screen_sends_slower_code_on_and_unchanged_code_not(captured: Summary) -> None:
    assert (captured.cards, captured.processes) == (2, 6)
    for rule in captured.screens:
        assert rule.doses["50"].drawn_share(SLOWER) > 0.9
    assert captured.screens[0].unchanged.drawn_share(SLOWER, FASTER) < 0.1


def test_rules_on_launches_raise_false_alarms(captured: Summary) -> None:
    rules = {rule.name: rule for rule in captured.others}
    assert rules["Mann-Whitney on 30 launches, p < 0.05"].unchanged.drawn_share(SLOWER) > 0.2
    assert rules["median of 30 launches + 5 %"].unchanged.drawn_share(SLOWER) > 0


def test_loop_remainders_take_longer_than_their_dose(captured: Summary) -> None:
    """Counts must be multiples of the unrolling: 2,010 iterations took 1.4 % longer."""
    short = next(each for each in captured.effects if each.kernel == "fma_short")
    assert short.doses_pct["5"] > 1
    copied = next(each for each in captured.effects if each.kernel == "copy")
    assert copied.doses_pct["5"] == pytest.approx(0.5, abs=0.1)


def test_times_by_the_hosts_clock_have_a_row_of_their_own() -> None:
    """Their restarts differ by several percent, which the widths of a GPU's times would call slower."""
    (kernel,) = BY_HOST
    lines: list[Line] = [samples(0, 0)[0]]
    for process in range(4):
        for dose in DOSES_PERMILLE:
            one = a_session(process, kernel, dose, 900.0 * (1 + dose / 1000))
            host = msgspec.structs.replace(one.timing, mode="host", source="host", blocks_mhz=())
            lines.append(msgspec.structs.replace(one, timing=host))
    for restart in range(4):
        lines += [a_restart(restart, kernel, old, new, 0.03) for old, new in PAIRS]
    found = analyse(lines)
    assert [rule.name for rule in found.in_turn] == [HOST]
    assert found.in_turn[0].unchanged.found(SLOWER) == 0
    assert {rule.name.partition(", ")[2] for rule in found.screens} == {HOST}
