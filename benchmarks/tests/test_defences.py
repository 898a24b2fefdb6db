"""Tables of the defences, from made-up results."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from benchmarks import results_file
from benchmarks.defences.results import (
    Cost,
    Results,
    Tried,
    costs_table,
    exceptions,
    read,
    summary,
    themes_table,
)
from exploits.verdicts import Outcome, verdict
from run_builders import one_test

EXPLOIT = Tried(name="worker_thread", mode="hot", result="refused", theme="on_streams")


def results(*more: Tried, costs: tuple[Cost, ...] = ()) -> Results:
    return Results(
        schema=1,
        date="2026-11-22T23:40:00+00:00",
        environment=one_test().environment,
        exploits=(EXPLOIT, *more),
        costs=costs,
    )


def test_summary_counts_exploits_and_costs() -> None:
    in_strict = replace(EXPLOIT, verify="strict", seconds=3.0)
    text = summary(results(EXPLOIT, in_strict, costs=(Cost(name="k", with_s=1.0, without_s=0.9),)))
    assert "1 exploits in up to 4 modes, verified `auto`: 0 of 2 are accepted" in text
    assert "verified `strict`: 0 of 1 are accepted, 0 doubted, 1 refused" in text
    assert "they took 3 s." in text
    assert "10.0 % of the wall time of 1 honest tests" in text


def test_each_kind_of_exploit_has_a_row() -> None:
    text = themes_table(results(replace(EXPLOIT, verify="strict"), replace(EXPLOIT, result="doubted")))
    assert "|exploits by|count|auto: accepted|auto: warned of|auto: refused|" in text
    assert "|streams and threads|1|0|1|1|0|0|0|0|1|0|0|" in text


def test_doubt_is_not_enough_if_doubts_fail() -> None:
    doubted = replace(EXPLOIT, result="doubted")
    assert exceptions(results(doubted)).startswith("No exploit")
    assert "in mode hot, strict: doubted" in exceptions(results(replace(doubted, verify="strict")))


def test_accepted_exploits_are_listed() -> None:
    assert exceptions(results()).startswith("No exploit is accepted")
    accepted = Tried(name="lazy", mode="hot", result="accepted", theme="on_memory")
    assert "`lazy` in mode hot, auto: accepted" in exceptions(results(accepted))


def test_cost_is_a_part_of_the_test() -> None:
    assert "|`k`|2.00|1.90|5.0|" in costs_table(results(costs=(Cost(name="k", with_s=2.0, without_s=1.9),)))


def test_results_survive_their_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("results") / "defences.json"
    path.write_bytes(results_file.encode(results()))
    assert read(path) == results()


@pytest.mark.parametrize(
    ("time_us", "message", "expected"),
    [
        (79.0, "", "accepted"),
        (81.0, "", "honest time"),
        (0.0, "Failed: gpuperf: the time is refused", "refused"),
        (0.0, "TypeError: record() takes exactly one argument", "broken"),
    ],
)
def test_time_far_below_the_honest_one_is_accepted(time_us: float, message: str, expected: str) -> None:
    outcome = Outcome("test_exploit", "lazy", "hot", not message, message, time_us=time_us)
    assert verdict(outcome, 100.0) == expected
