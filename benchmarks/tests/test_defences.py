"""Tables of the defences, from made-up results, and the fate of honest callables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from benchmarks import results_file
from benchmarks.defences.__main__ import fate, join
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

if TYPE_CHECKING:
    from pathlib import Path

EXPLOIT = Tried(name="worker_thread", mode="hot", result="refused", theme="on_streams")
HONEST = Tried(name="softmax", mode="cold", result="passed")


def results(*more: Tried, costs: tuple[Cost, ...] = ()) -> Results:
    tried = [EXPLOIT, HONEST, *more]
    return Results(
        schema=1,
        date="2026-11-22T23:40:00+00:00",
        environment=one_test().environment,
        exploits=tuple(one for one in tried if one.theme),
        honest=tuple(one for one in tried if not one.theme),
        costs=costs,
    )


def test_summary_counts_exploits_and_case_runs() -> None:
    text = summary(results(EXPLOIT, costs=(Cost(name="k", with_s=1.0, without_s=0.9),)))
    assert "1 exploits in up to 4 modes: 2 of 2 are refused" in text
    assert "1 case-runs of honest callables: 0 accused" in text
    assert "10.0 % of the wall time of 1 honest tests" in text


def test_each_kind_of_exploit_has_a_row() -> None:
    assert "|streams and threads|1|1|0|0|0|" in themes_table(results())


def test_accepted_exploits_and_accusations_are_listed() -> None:
    assert exceptions(results()).startswith("No exploit is accepted")
    accepted = Tried(name="lazy", mode="hot", result="accepted", theme="on_memory")
    accused = Tried(name="mm", mode="auto", result="accused", message="the time is refused")
    listed = exceptions(results(accepted, accused))
    assert "`lazy` in mode hot: accepted" in listed
    assert "`mm` in mode auto: accused the time is refused" in listed


def test_cost_is_a_part_of_the_test() -> None:
    assert "|`k`|2.00|1.90|5.0|" in costs_table(results(costs=(Cost(name="k", with_s=2.0, without_s=1.9),)))


def test_results_survive_their_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("results") / "defences.json"
    path.write_bytes(results_file.encode(results()))
    assert read(path) == results()


def test_parts_of_one_commit_are_put_together(tmp_path: Path) -> None:
    parts = [tmp_path / "one.json", tmp_path / "two.json"]
    for part in parts:
        part.write_bytes(results_file.encode(results()))
    join(tmp_path / "all.json", parts)
    assert read(tmp_path / "all.json").honest == (HONEST, HONEST)


def test_parts_of_two_commits_are_refused(tmp_path: Path) -> None:
    one, two = results(), results()
    two = replace(two, environment=replace(two.environment, commit="b" * 40))
    parts = [tmp_path / "one.json", tmp_path / "two.json"]
    for part, found in zip(parts, (one, two), strict=True):
        part.write_bytes(results_file.encode(found))
    with pytest.raises(SystemExit, match="several commits"):
        join(tmp_path / "all.json", parts)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("gpuperf: mode 'hot' needs a callable that a CUDA graph can capture", "other mode"),
        ("gpuperf: the time is refused: 3 launches came after 5 calls had returned", "accused"),
    ],
)
def test_mode_that_does_not_fit_is_no_accusation(message: str, expected: str) -> None:
    assert fate(Outcome("test_callable", "mm", "hot", passed=False, message=message)) == expected


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
