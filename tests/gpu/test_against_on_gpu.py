"""`--gpuperf-against` on a real GPU: a kernel with a loop of more or fewer steps."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from against_environment import environment
from against_project import Project
from pytest_gpuperf.statistics.decision import Outcome
from pytest_gpuperf.statistics.sequential import decide_restarts
from steps_kernel import KERNEL

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.records import AgainstTiming

TEST = """
import torch
from kernels import steps

def test_steps(gpuperf):
    gpuperf.time(steps, torch.rand(132 * 8 * 256, device=gpuperf.device))
"""


def compared(tmp_path: Path, steps: int) -> AgainstTiming:
    """Compare a kernel of this many steps with one of 4000."""
    project = Project(tmp_path / "repo")
    project.commit({"kernels.py": KERNEL.format(steps=4000), "test_steps.py": TEST})
    project.write({"kernels.py": KERNEL.format(steps=steps)})
    return run(project, "main")


def run(project: Project, against: str) -> AgainstTiming:
    """Compare with a commit or an environment."""
    arguments = ("--gpuperf", "--gpuperf-counters=off", f"--gpuperf-against={against}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    settlement = project.settlements()["test_steps"]
    assert settlement.against is not None
    assert settlement.reason == "", done.stdout + done.stderr
    assert project.leftovers() == []
    return settlement.against


@pytest.mark.parametrize(
    ("steps", "outcome"), [(4000, Outcome.PASS), (4080, Outcome.REGRESSED), (3920, Outcome.IMPROVED)]
)
def test_two_percent_is_detected_and_unchanged_code_passes(
    tmp_path: Path, steps: int, outcome: Outcome
) -> None:
    found = compared(tmp_path, steps)
    decision = decide_restarts(found.log_ratios, final=True)
    assert decision.outcome is outcome
    assert decision.change_pct == pytest.approx(100 * (steps / 4000 - 1), abs=0.5)
    assert found.mode == "hot"


@pytest.mark.parametrize(("steps", "outcome"), [(4000, Outcome.PASS), (3920, Outcome.REGRESSED)])
def test_a_library_of_another_environment_is_compared(tmp_path: Path, steps: int, outcome: Outcome) -> None:
    python = environment(tmp_path / "old", 1, steps)
    project = Project(tmp_path / "repo")
    steps_of_library = "try: from fast_kernels import TIME_US as STEPS\nexcept ImportError: STEPS = 4000\n"
    kernel = steps_of_library + KERNEL.format(steps="int(STEPS)")
    project.commit({"kernels.py": kernel, "test_steps.py": TEST})
    found = run(project, f"python:{python}")
    assert decide_restarts(found.log_ratios, final=True).outcome is outcome
    assert found.code is not None
    assert [one.name for one in found.code.kernels] == ["steps_kernel"]
    assert all(one.code for one in found.code.kernels)
