"""Histories with a known truth, their replay, and the rules that judge them."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from benchmarks.history_power.analysis import HELD_OUT, TUNING, Task, Tried, best, judged, read, total
from benchmarks.history_power.measured import Timed, from_samples, halves
from benchmarks.history_power.replay import replay
from benchmarks.history_power.rules import ASV, OTAVA, OURS, RULES, Reported, hud, ours
from benchmarks.history_power.series import (
    MEASURED,
    SCENARIOS,
    UNCHANGED,
    Scenario,
    Series,
    changed,
    unchanged,
)
from benchmarks.history_power.tables import layouts, outcomes, report, summarised
from gate_samples import a_session
from pytest_gpuperf.features.history.change_points import LEVEL, HistoryPoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.history_power.rules import Rule

RESULTS = Path(__file__).parents[1] / "results" / "history_power.json"
DOUBLED = Scenario("doubled", factors=(2.0,))


def a_test(name: str = "k", processes: int = 20, suite: str = "gate") -> Timed:
    noise = Random(name)
    points = {
        dose: {
            process: HistoryPoint((100 + dose / 10) * noise.gauss(1, 0.0005), f"GPU-{process // 1000}")
            for process in [*range(processes // 2), *range(1000, 1000 + processes // 2)]
        }
        for dose in (0, 5, 10, 20, 50)
    }
    return Timed(suite, name, points)


def a_series(times: Sequence[float], first: int = -1, last: int = -1) -> Series:
    points = tuple(HistoryPoint(time, "GPU-1") for time in times)
    return Series("k", "gate", "", "pool", 0, points, (), first, last)


@pytest.mark.parametrize(
    ("false", "level"),
    [((0, 0, 0, 0), 1e-3), ((0, 0, 0, 1), 3e-4), ((0, 1, 0, 0), 1e-4), ((2, 2, 3, 9), 1e-4)],
)
def test_tuned_level_has_a_margin_to_the_first_false_alert(false: tuple[int, ...], level: float) -> None:
    levels = zip((1e-4, 3e-4, 1e-3, 3e-3), false, strict=True)
    tried = [Tried(level=each, half=TUNING, false=alerts, soon=0.5) for each, alerts in levels]
    tried.append(Tried(level=1e-2, half=HELD_OUT, false=0, soon=1.0))
    assert best(tried, TUNING) == level


def test_kernel_counts_in_processes_that_timed_every_dose() -> None:
    samples = [a_session(process, "k", dose, 10.0 + dose) for process in range(4) for dose in (0, 5)]
    (test,) = from_samples("gate", samples[:-1])
    assert (test.doses, test.processes) == ([0, 5], [0, 1, 2])
    assert test.points[5][2] == HistoryPoint(15.0, "GPU-1", mhz=1980.0)


def test_every_second_test_of_a_suite_is_held_out() -> None:
    tests = [a_test(name, suite=suite) for suite, names in (("x", "abc"), ("y", "de")) for name in names]
    tuning, held_out = ([test.name for test in half] for half in halves(tests))
    assert (tuning, held_out) == (["a", "c", "d"], ["b", "e"])


def test_history_takes_each_process_once() -> None:
    for series in [*unchanged([a_test()], 1, 1), *changed([a_test()], MEASURED[0], 1, 1)]:
        assert len({process for _, process in series.sources}) == len(series.points) == 20


def test_measured_dose_is_a_session_as_it_is() -> None:
    test = a_test()
    for series in changed([test], MEASURED[1], 1, 1):
        assert [dose for dose, _ in series.sources[: series.first]] == [0] * series.first
        assert {dose for dose, _ in series.sources[series.first :]} == {10}
        assert list(series.points) == [test.points[dose][process] for dose, process in series.sources]


def test_factor_multiplies_unchanged_sessions() -> None:
    test = a_test()
    creep = SCENARIOS[-1]
    for series in changed([test], creep, 1, 1):
        ratios = [
            point.time / test.points[0][process].time
            for point, (_, process) in zip(series.points, series.sources, strict=True)
        ]
        assert ratios[series.first - 1] == 1
        assert ratios[series.first : series.last + 1] == pytest.approx(creep.factors)
        assert ratios[-1] == pytest.approx(1.005**6)


def test_blocks_hold_one_card_after_another() -> None:
    cards = {
        series.layout: [card for card, _ in groupby(point.card for point in series.points)]
        for series in unchanged([a_test()], 1, 1)
    }
    assert sorted(cards["blocks"]) == ["GPU-0", "GPU-1"]
    assert len(cards["pool"]) > 2


def test_tests_of_a_suite_change_in_one_commit() -> None:
    found = changed([a_test("a"), a_test("b")], DOUBLED, 1, 1)
    assert len({(series.layout, series.first, series.sources) for series in found}) == 2


@pytest.mark.parametrize(
    ("rule", "delay", "false"),
    [
        (lambda points: [Reported(9, 10, True)] if len(points) >= 12 else [], 2, 0),
        (lambda points: [Reported(9, 10, False)] if len(points) >= 12 else [], 0, 0),
        (lambda points: [Reported(2, 3, True)] if len(points) > 3 else [], 0, 1),
        (lambda points: [Reported(9, 10, True), Reported(17, 18, False)] if len(points) == 20 else [], 10, 1),
        (lambda points: [], 0, 0),
    ],
)
def test_replay_counts_the_commits_until_the_first_alert(rule: Rule, delay: int, false: int) -> None:
    found = replay(a_series([1.0] * 10 + [2.0] * 10, 10, 10), rule)
    assert (found.delay, found.false) == (delay, false)


def test_moving_alert_is_counted_once() -> None:
    found = replay(
        a_series([1.0] * 20), lambda points: [Reported(len(points) // 8, 4 + len(points) // 8, True)]
    )
    assert found.false == 1


def test_range_of_a_creep_has_to_hold_all_of_it() -> None:
    series = a_series([1.0] * 20, 8, 12)
    assert replay(series, lambda _: [Reported(7, 12, True)]).covered is True
    assert replay(series, lambda _: [Reported(9, 12, True)]).covered is False
    assert replay(series, lambda _: []).covered is None


def test_hud_rule_needs_two_slow_days_of_the_last_four() -> None:
    rule = hud(0.15)
    history = [HistoryPoint(time, "") for time in [1.0] * 8 + [1.2] * 8]
    alerts = [count for count in range(1, 17) if rule(history[:count])]
    assert alerts == [10, 11, 12, 13]
    assert not any(hud(0.25)(history[:count]) for count in range(17))


@pytest.mark.parametrize(("rule", "package"), [(OTAVA, "otava"), (ASV, "asv")])
def test_other_packages_find_a_large_step(rule: str, package: str) -> None:
    pytest.importorskip(package)
    noise = Random(5)
    history = [HistoryPoint(level * noise.gauss(1, 0.002), "") for level in [1.0] * 15 + [1.2] * 15]
    assert RULES[rule](history) == [Reported(14, 15, True)]
    assert RULES[rule](history[:15]) == []


def test_own_rule_takes_a_level() -> None:
    noise = Random(1)
    history = [HistoryPoint(level * noise.gauss(1, 0.004), "") for level in [1.0] * 12 + [1.008] * 12]
    assert ours()(history) == []
    assert [found.slower for found in ours(0.05)(history)] == [True]


def test_judged_figures_add_up() -> None:
    figures = judged(Task(OURS, LEVEL, TUNING, MEASURED[2].name), [a_test()], 1, 2)
    assert [each.layout for each in figures] == ["pool", "blocks"]
    both = total(figures)
    assert (both.series, both.points, both.false, both.found) == (4, 80, 0, 1.0)


def test_committed_results_are_those_of_the_shipped_level() -> None:
    summary = read(RESULTS)
    assert summary.level == LEVEL == summary.tuned
    assert not summary.dirty
    assert summary.versions.keys() == {OTAVA, ASV}


def test_committed_results_have_no_false_alert_in_2000_points() -> None:
    figures = read(RESULTS).figures
    own = [each for each in figures if (each.rule, each.scenario) == (OURS, UNCHANGED.name)]
    held_out = total(each for each in own if each.half == HELD_OUT)
    assert held_out.points > 2000
    assert total(own).false == 0


def test_report_shows_every_rule_and_scenario() -> None:
    summary = read(RESULTS)
    text = report(summary)
    assert summarised(summary) in text
    assert all(rule in outcomes(summary) for rule in RULES)
    assert all(scenario.name in layouts(summary) for scenario in SCENARIOS)
