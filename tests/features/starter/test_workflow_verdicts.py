"""The scripts of the workflow that `gpuperf init` writes, with real git, a real pytest and a fake GPU."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from against_project import ARGUMENTS, Project
from command_line import gpuperf
from pytest_gpuperf.features.starter.command import WORKFLOW

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = "kernels.py"
BASELINE = "baselines/nvidia-h200/test_k.json"
FILES = {
    KERNEL: "def kernel(): return 10.0\n",
    "perf/test_k.py": """
        from kernels import kernel

        def test_k(gpuperf):
            gpuperf.time(kernel)

        def test_steady(gpuperf):
            gpuperf.time(lambda: 5.0)
    """,
    "perf/test_other.py": "def test_other(gpuperf): gpuperf.time(lambda: 5.0)\n",
    "pyproject.toml": '[project]\nname = "mine"\n[tool.pytest.ini_options]\npythonpath = "."\n',
    ".gitignore": "*.pyc\n.gpuperf\n",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Make a repository with the workflow and committed baselines."""
    made = Project(tmp_path_factory.mktemp("workflow") / "repo")
    made.forks = True
    made.commit(FILES)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made.root)
        assert gpuperf("init").exit_code == 0
    done = made.session("--gpuperf-update=all", "perf")
    assert done.returncode == 0, done.stdout
    made.commit({})
    made.git("tag", "base")
    return made


@pytest.fixture
def project(repository: Project) -> Project:
    repository.git("reset", "--hard", "base")
    return repository


def played(project: Project, folder: Path) -> subprocess.CompletedProcess[str]:
    """Play the steps of the measuring job in a fresh checkout, and return the last script that ran."""
    steps = yaml.safe_load((project.root / WORKFLOW).read_text("utf-8"))["jobs"]["measure"]["steps"]
    (depth,) = (step["with"]["fetch-depth"] for step in steps if "checkout" in step.get("uses", ""))
    checkout = folder / "checkout"
    shallow = [f"--depth={depth}"] if depth else []
    subprocess.run(["git", "clone", "-q", *shallow, f"file://{project.root}", str(checkout)], check=True)
    tools, bin_ = folder / "tools", folder / "venv" / "bin"
    scripts = {
        tools / "python": "exit 0",  # -m venv
        bin_ / "pip": "exit 0",
        bin_ / "python": f'exec {sys.executable} "$@"',
    }
    for path, script in scripts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    (bin_ / "activate").write_text(f"PATH={bin_}:$PATH\n")
    options = [option for option in ARGUMENTS if option != "--gpuperf"]
    environ = project.environment() | {"CI": "true", "RUNNER_TEMP": str(folder)}
    environ |= {"PYTEST_ADDOPTS": shlex.join(options), "PATH": f"{tools}:{environ['PATH']}"}
    done = subprocess.CompletedProcess("", 0, "")
    for script in [step["run"] for step in steps if "run" in step]:
        command = ["bash", "-e", "-c", script]
        done = subprocess.run(command, cwd=checkout, env=environ, capture_output=True, text=True, timeout=120)
        if done.returncode:
            break
    return done


@pytest.mark.parametrize(
    ("change", "status", "line"),
    [
        ({}, 0, "3 passed"),
        ({KERNEL: "def kernel(): return 12.0\n"}, 1, "gpuperf: 20.0 % slower: 10 → 12 µs"),
        ({BASELINE: None}, 1, "new, although baselines of an ancestor have it"),
        ({"perf/test_k.py": "def test_steady(gpuperf): gpuperf.time(lambda: 5.0)\n"}, 4, "do not exist"),
    ],
    ids=["unchanged", "slower", "baseline deleted", "test gone"],
)
def test_workflow_fails_what_is_slower_or_lost(
    project: Project, tmp_path: Path, change: dict[str, str | None], status: int, line: str
) -> None:
    for name in (name for name, text in change.items() if text is None):
        (project.root / name).unlink()
    project.commit({name: text for name, text in change.items() if text is not None})
    done = played(project, tmp_path)
    assert done.returncode == status, done.stdout
    assert line in done.stdout
    assert (tmp_path / "checkout" / "gpuperf-junit.xml").exists()
