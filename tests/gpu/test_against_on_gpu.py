"""Old and new code in turn on a real GPU: a kernel with a loop of more or fewer steps."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from against_environment import environment
from against_project import Project
from present import present
from pytest_gpuperf.against.build import builds
from pytest_gpuperf.statistics.decision import Outcome
from pytest_gpuperf.statistics.sequential import decide_restarts
from steps_kernel import KERNEL

if TYPE_CHECKING:
    from pytest_gpuperf.records import AgainstTiming

TEST = """
import torch
from kernels import steps

def test_steps(gpuperf):
    gpuperf.time(steps, torch.rand(132 * 8 * 256, device=gpuperf.device))
"""
EXTENSIONS = Path(__file__).parents[1] / "data" / "extensions"
INSTALL = f"{sys.executable} -m pip install --no-index --no-deps --no-build-isolation --upgrade --target"


def compared(tmp_path: Path, steps: int) -> AgainstTiming:
    """Compare a kernel of this many steps with one of 4000."""
    project = Project(tmp_path / "repo")
    project.commit({"kernels.py": KERNEL.format(steps=4000), "test_steps.py": TEST})
    project.write({"kernels.py": KERNEL.format(steps=steps)})
    return run(project, "main")


def run(project: Project, *against: str) -> AgainstTiming:
    """Compare with a commit or an environment, or with the code of the baseline."""
    done = measure(project, *(f"--gpuperf-against={one}" for one in against))
    settlement = project.settlements()["test_steps"]
    assert settlement.against is not None, done.stdout + done.stderr
    assert settlement.reason == "", done.stdout + done.stderr
    assert project.leftovers() == []
    outcome = decide_restarts(settlement.against.log_ratios, final=True).outcome
    assert done.returncode == (outcome is Outcome.REGRESSED), done.stdout
    return settlement.against


def measure(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a project."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--gpuperf", "--gpuperf-counters=off", *arguments],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.parametrize(
    ("steps", "outcome"), [(4000, Outcome.PASS), (4080, Outcome.REGRESSED), (3920, Outcome.IMPROVED)]
)
def test_two_percent_is_found_and_unchanged_code_passes(tmp_path: Path, steps: int, outcome: Outcome) -> None:
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


@pytest.mark.parametrize("tool", ["setuptools", "scikit_build_core"])
def test_extension_is_built_for_old_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    """Install an extension, and another one of twice the steps; `gpuperf_build` builds old code once."""
    pytest.importorskip(tool)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project, install = Project(tmp_path / "repo"), [*INSTALL.split(), str(tmp_path / "site"), "."]
    project.path.append(tmp_path / "site")
    for name in ("both", tool):
        shutil.copytree(EXTENSIONS / name, project.root, dirs_exist_ok=True)
    ini = f"[pytest]\ngpuperf_build = {INSTALL} {{prefix}} .\n"
    project.write({"pytest.ini": ini, ".gitignore": "*.so\nbuild\n*.egg-info\n__pycache__\n"})
    measured = project.commit({"tests/test_steps.py": TEST.replace("kernels", "fast")})
    subprocess.run(install, cwd=project.root, check=True)
    for library in (tmp_path / "site/fast").glob("*.so"):  # old code is built without what git ignores
        (project.root / "src/fast" / library.name).write_text("built in place")
    assert measure(project, "--gpuperf-update=all").returncode == 0
    project.commit({})
    same = run(project, measured)
    source = (project.root / "src/fast/steps.cu").read_text()
    project.write({"src/fast/steps.cu": source.replace("4000", "8000")})
    subprocess.run(install, cwd=project.root, check=True)
    slower = run(project)
    assert slower.commit == same.commit == measured
    assert [one.new_us / one.old_us for one in (same, slower)] == pytest.approx([1, 2], rel=0.1)
    assert all(one.code for one in present(same.code).kernels)
    assert slower.code == same.code
    assert len(list(builds().glob("*/done"))) == 1
