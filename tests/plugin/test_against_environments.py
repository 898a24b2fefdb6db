"""`--gpuperf-against=python:PATH`: old code in another virtual environment, with real ones and a fake GPU."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from against_project import ARGUMENTS, Project
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.against.interpreter import Installed, check_plugin, installed, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

KERNELS = """
from fast_kernels import REGISTERS, TIME_US
from pytest_gpuperf.records import LaunchedCode, LaunchedKernel

def kernel():
    return TIME_US

launched = LaunchedKernel(name="copy_kernel", code="0" * 64, registers_per_thread=REGISTERS)
kernel.code = LaunchedCode(kernels=(launched,))
"""
TEST = "from kernels import kernel\ndef test_k(gpuperf): gpuperf.time(kernel)\n"
HERE = Path(sys.prefix, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")


def environment(folder: Path, version: int, time_us: float, registers: int = 32) -> Path:
    """Make an environment with a version of a library of kernels; it shares the other packages."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "shared.pth").write_text(f"{HERE}\n")
    (site / "fast_kernels.py").write_text(f"TIME_US, REGISTERS = {time_us}, {registers}\n")
    metadata = site / f"fast_kernels-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: fast-kernels\nVersion: {version}\n")
    return folder


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make environments: `new` is that of the run."""
    folder = tmp_path_factory.mktemp("environments")
    environment(folder / "new", 2, 12.0, registers=40)
    environment(folder / "old", 1, 10.0)
    environment(folder / "twin", 2, 12.0, registers=40)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "repo")
    made.commit({"kernels.py": KERNELS, "test_k.py": TEST})
    return made


def run(project: Project, environments: Path, against: str) -> subprocess.CompletedProcess[str]:
    """Run the tests in the new environment, compared with another one."""
    return subprocess.run(
        [environments / "new/bin/python", "-m", "pytest", *ARGUMENTS, f"--gpuperf-against={against}"],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_library_that_became_slower_fails_with_what_differs(project: Project, environments: Path) -> None:
    done = run(project, environments, f"python:{environments}/old")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "gpuperf: 20.0 % slower: 10 → 12 µs (" in done.stdout
    assert "in turn, 2 restarts, old code python:old)" in done.stdout
    assert "copy_kernel: registers 32 -> 40" in done.stdout
    assert "python:old: fast-kernels 1 -> 2" in done.stdout
    assert project.leftovers() == []
    assert str(environments) not in max(project.root.rglob("run.json")).read_text()
