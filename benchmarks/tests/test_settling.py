"""Decisions in fresh checkouts: what counts as right, and the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.settling import Case, is_right, read, report, source

RESULTS = sorted((Path(__file__).parents[1] / "results").glob("settling_*.json"))


@pytest.mark.parametrize(
    ("change", "verdict", "exit_status", "right"),
    [
        ("unchanged", "pass", 0, True),
        ("unchanged", "regressed", 1, False),
        ("unchanged, another environment", "improved", 0, False),
        ("+0 %", "improved", 0, False),
        ("+0.5 %", "pass", 0, True),
        ("+1 %", "pass", 0, False),
        ("+5 %", "regressed", 1, True),
        ("CLONE", "regressed", 1, True),
        ("CLONE", "regressed", 0, False),
        ("SLEEP", "inconclusive", 0, False),
    ],
)
def test_right_verdict_depends_on_the_change(
    change: str, verdict: str, exit_status: int, right: bool
) -> None:
    found = Case(
        change=change, test="t", verdict=verdict, how="", seconds=0, session_s=0, exit_status=exit_status
    )
    assert is_right(found) is right


def test_committed_results_make_a_table() -> None:
    assert RESULTS
    found = [read(path) for path in RESULTS]
    assert report(found).startswith("|change|baseline of the|verdicts|suspects|s a suspect|")
    assert " driver " in source(found)
