"""`gpuperf diff-code` in a git project, with kernels that Triton compiles."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from against_project import Project
from forked import ForkedPython

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("triton")

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def changed(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2.0)

@triton.jit
def same(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) + 1.0)
"""
TESTS = """
import pytest
import kernels

@pytest.mark.parametrize("name", ["changed", "same"])
def test_k(gpuperf, name):
    gpuperf.static(getattr(kernels, name), {"x_ptr": "*fp32:16"}, {"BLOCK": 128}, archs=("sm_90",))

def test_on_gpu(gpuperf):
    gpuperf.time(lambda: None)

@pytest.mark.gpuperf(limits=["sm_90: block_size == 1"])
def test_limit(gpuperf):
    gpuperf.static(kernels.same, {"x_ptr": "*fp32:16"}, {"BLOCK": 128}, archs=("sm_90",))

def test_skipped(gpuperf):
    pytest.skip("no compiler")
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Create a project in which one of two kernels has changed, and the other has a comment above it."""
    made = Project(tmp_path / "repo")
    made.commit({"kernels.py": KERNELS, "test_k.py": TESTS, ".gitignore": ".gpuperf\n__pycache__\n"})
    made.write({"kernels.py": KERNELS.replace("* 2.0", "* 3.0").replace("@triton", "# x\n@triton")})
    return made


def diff_code(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    out, errors = (project.root.parent / name for name in ("stdout", "stderr"))
    command = ["-c", "from pytest_gpuperf.cli import main; main()", "diff-code", *arguments]
    with out.open("wb") as stdout, errors.open("wb") as stderr:
        process = ForkedPython(
            command, cwd=project.root, env=project.environment(), stdout=stdout, stderr=stderr
        )
    return subprocess.CompletedProcess(command, process.wait(120), out.read_text(), errors.read_text())


def test_only_changed_kernels_are_changed(project: Project) -> None:
    done = diff_code(project, "main", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    states = {row["test"].partition("::")[2]: (row["state"], row["differs"]) for row in found["kernels"]}
    assert len(found["kernels"]) == len(states)
    assert states == {
        "test_k[changed]": ("changed", ["instructions"]),
        "test_k[same]": ("unchanged", []),
        "test_limit": ("unchanged", []),
        "test_on_gpu": ("unknown", ["it needs a GPU, and only gpuperf.static compiles without one"]),
        "test_skipped": ("unknown", ["no compiler"]),
    }
    # Nothing is left of it: no worktree, and no run that the next command would take for the newest.
    assert list(project.temporary.iterdir()) == []
    assert list(project.root.glob(".gpuperf/runs/*")) == []


def test_unknown_commit_is_an_error(project: Project) -> None:
    done = diff_code(project, "nowhere")
    assert done.returncode == 2
    assert "gpuperf diff-code nowhere: git says" in done.stderr


def test_tests_that_do_not_run_are_an_error(project: Project) -> None:
    done = diff_code(project, "main", "test_absent.py")
    assert done.returncode == 2
    assert "the tests of main (" in done.stderr
    assert "test_absent.py" in done.stderr
