"""The code of a session of a baseline, by real git."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from against_project import Project
from pytest_gpuperf.against.git import Repository
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.baseline import RunNote

if TYPE_CHECKING:
    from pathlib import Path

RUN = "20261126-175222-8755"
FILE = "baselines/nvidia-h200/test_k.json"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "repo")
    made.commit({"kernels.py": "measured = 1\n"})
    return made


def old(project: Project, note: RunNote, root: Path | None = None) -> str:
    repository = Repository.around(root or project.root)
    return repository.old_code(RUN, note, next(repository.root.glob("*/nvidia-h200/*"))).id


def why(project: Project, note: RunNote, root: Path | None = None) -> str:
    with pytest.raises(GpuperfError) as raised:
        old(project, note, root)
    return str(raised.value)


def test_a_clean_ancestor_is_the_code(project: Project) -> None:
    measured = project.git("rev-parse", "HEAD")
    project.commit({FILE: RUN})
    assert old(project, RunNote(commit=measured, dirty=False)) == measured


@pytest.mark.parametrize("dirty", [True, None])
def test_without_a_clean_commit_the_baselines_first_one_counts(project: Project, dirty: bool | None) -> None:
    measured = project.git("rev-parse", "HEAD")
    brought = project.commit({FILE: RUN})
    project.commit({FILE: f"{RUN} again"})
    assert old(project, RunNote(commit=measured, dirty=dirty)) == brought


@pytest.mark.parametrize("move", [(FILE, "baselines/nvidia-h200/test_renamed.json"), ("baselines", "perf")])
def test_a_renamed_baseline_keeps_its_first_commit(project: Project, move: tuple[str, str]) -> None:
    brought = project.commit({FILE: RUN})
    project.git("mv", *move)
    project.commit({"kernels.py": "slower = 1\n"})
    assert old(project, RunNote()) == brought


@pytest.mark.parametrize("commit", ["", "HEAD", "main", "c0ffee1234", "f" * 40, "--output=x" + "0" * 30])
def test_only_an_id_of_an_ancestor_is_taken(project: Project, commit: str) -> None:
    brought = project.commit({FILE: RUN})
    assert old(project, RunNote(commit=commit, dirty=False)) == brought


def test_a_commit_of_another_branch_is_no_ancestor(project: Project) -> None:
    project.git("switch", "--quiet", "--create", "other")
    other = project.commit({"kernels.py": "other = 1\n"})
    project.git("switch", "--quiet", "main")
    brought = project.commit({FILE: RUN})
    assert old(project, RunNote(commit=other, dirty=False)) == brought


def test_a_baseline_that_is_not_committed_has_no_old_code(project: Project) -> None:
    measured = project.git("rev-parse", "HEAD")
    note = RunNote(commit=measured, dirty=False)
    project.write({FILE: RUN})
    assert f"no old code: path '{FILE}' exists on disk" in why(project, note)
    project.commit({FILE: "another run"})
    project.write({FILE: RUN})
    assert why(project, note) == f"the session of run {RUN} is not committed; commit {FILE}"


@pytest.mark.parametrize("depth", [1, 3])
def test_a_shallow_clone_has_no_old_code(project: Project, tmp_path: Path, depth: int) -> None:
    """Its only commit, or that of the baseline, may have the code of today."""
    measured = project.git("rev-parse", "HEAD")
    project.commit({"kernels.py": "slower = 1\n"})
    project.commit({FILE: RUN})
    project.commit({"kernels.py": "slower = 2\n"})
    clone = tmp_path / "clone"
    project.git("clone", "--quiet", f"--depth={depth}", f"file://{project.root}", str(clone))
    assert why(project, RunNote(commit=measured, dirty=False), clone) == (
        f"the code of run {RUN} is not in this shallow clone; fetch-depth: 0 in actions/checkout, or "
        "git fetch --unshallow"
    )


def test_a_baseline_outside_of_the_repository_has_no_old_code(project: Project) -> None:
    with pytest.raises(GpuperfError) as raised:
        Repository.around(project.root).old_code(RUN, RunNote(), project.root.parent / "test_k.json")
    assert str(raised.value) == "no old code: the baseline lies outside of the repository"
