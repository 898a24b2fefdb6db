"""Decisions in fresh checkouts: what counts as right, and the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.settling import Case, Part, is_right, parts, report, source
from pytest_gpuperf.records import Environment
from pytest_gpuperf.records.environment import GpuInfo, Toolchain

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
    found = parts(RESULTS)
    assert report(found).startswith("|change|GPU|baseline's card|")
    assert " driver " in source(found)


def test_cases_of_several_cards_share_a_row() -> None:
    case = Case(change="+1 %", test="t", verdict="pass", how="", seconds=0, session_s=0, exit_status=0)
    gpus = (GpuInfo(name="NVIDIA H100 80GB HBM3", slug="h100", uuid=uuid) for uuid in ("GPU-1", "GPU-2"))
    found = [
        Part(
            date="",
            environment=Environment(gpu=gpu, toolchain=Toolchain()),
            baseline="same card",
            busy_neighbours=3,
            cases=(case,),
        )
        for gpu in gpus
    ]
    *_, row = report(found).splitlines()
    assert row == "|+1 %|H100|same|3|2|2 pass|0||"
