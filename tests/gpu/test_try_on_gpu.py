"""`gpuperf try` on the example problems: good and slow ones are accepted, wrong and fooling ones are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import gpuperf

PROBLEMS = Path(__file__).parents[2] / "suites" / "problems"
BRIEF = ("--json", "--budget", "0.2", "--rounds", "2", "--seeds", "2", "--timeout", "60")
SOLUTION = """import os, torch
class ModelNew(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
"""


def tried(solution: Path, folder: str) -> tuple[int, dict[str, Any]]:
    (problem,) = (path for path in (PROBLEMS / folder).glob("*.py") if path.stem in ("problem", "reference"))
    result = gpuperf("try", str(solution), "--reference", str(problem), *BRIEF)
    return result.exit_code, json.loads(result.stdout) if result.stdout else {"error": result.stderr}


@pytest.mark.parametrize("folder", ["softmax", "gelu_linear", "prefix_sum", "row_norm"])
def test_good_solution_is_accepted(folder: str) -> None:
    status, found = tried(PROBLEMS / folder / "good.py", folder)
    assert (status, found["verdict"]) == (0, "accepted"), found
    assert found["speed_up"]["value"] > 1


@pytest.mark.parametrize("folder", ["softmax", "gelu_linear", "prefix_sum", "row_norm"])
def test_fooling_solution_is_not_accepted(folder: str) -> None:
    status, found = tried(PROBLEMS / folder / "fooling.py", folder)
    assert status == 1, found
    assert found["reasons"]


@pytest.mark.parametrize("folder", ["softmax", "row_norm"])
def test_wrong_solution_is_wrong(folder: str) -> None:
    status, found = tried(PROBLEMS / folder / "wrong.py", folder)
    assert (status, found["verdict"], found["correct"]) == (1, "wrong", False), found


def test_slow_solution_is_accepted_and_slower() -> None:
    status, found = tried(PROBLEMS / "softmax" / "slow.py", "softmax")
    assert (status, found["verdict"]) == (0, "accepted"), found
    assert found["speed_up"]["high"] < 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [("os.kill(os.getpid(), 11)", "ended its process by signal 11"), ("return x[:-1]", "shape")],
)
def test_broken_solution_has_a_clear_reason(tmp_path: Path, body: str, reason: str) -> None:
    solution = tmp_path / "broken.py"
    solution.write_text(f"{SOLUTION}    def forward(self, x):\n        {body}\n", encoding="utf-8")
    status, found = tried(solution, "softmax")
    assert status == 1
    assert reason in found["reasons"][0]
