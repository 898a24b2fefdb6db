"""History on a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from history_builders import at_once, commits, git, line
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.history.branch import BranchStore

if TYPE_CHECKING:
    from pathlib import Path

NAME = "perf-history"


@pytest.fixture
def clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two clones of a bare remote."""
    monkeypatch.setenv("HOME", str(tmp_path))
    first = tmp_path / "first"
    first.mkdir()
    commits(first, 1)
    git(tmp_path, "clone", "-q", "--bare", "first", "remote.git")
    git(first, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(tmp_path, "clone", "-q", "remote.git", "second")
    return [first, tmp_path / "second"]


def runs_on(folder: Path) -> list[str]:
    return [found.run for found in BranchStore(folder, NAME).load()]


def test_commit_leaves_work_tree_and_index_alone(clones: list[Path]) -> None:
    (clones[0] / "staged").write_text("x")
    git(clones[0], "add", "staged")
    before = git(clones[0], "status", "--porcelain", "--branch")
    assert BranchStore(clones[0], NAME).add([line(1), line(0)]) == 2
    assert git(clones[0], "status", "--porcelain", "--branch") == before
    assert git(clones[0], "ls-tree", "-r", "--name-only", NAME) == "nvidia-h200/test_square.jsonl"
    assert runs_on(clones[0]) == ["run-0000", "run-0001"]


def test_commit_names_no_machine(clones: list[Path]) -> None:
    BranchStore(clones[0], NAME).add([line(0)])
    assert git(clones[0], "log", "--format=%an <%ae>", NAME) == "gpuperf <gpuperf@localhost>"


def test_push_merges_the_lines_of_another_clone(clones: list[Path]) -> None:
    for number, clone in enumerate(clones):
        assert BranchStore(clone, NAME, push=True).add([line(number)]) == 1
    assert runs_on(clones[1]) == ["run-0000", "run-0001"]
    assert git(clones[1].parent / "remote.git", "rev-parse", NAME) == git(clones[1], "rev-parse", NAME)


def test_lines_of_a_failed_push_are_pushed_later(clones: list[Path]) -> None:
    BranchStore(clones[0], NAME).add([line(0)])
    BranchStore(clones[1], NAME, push=True).add([line(1)])
    assert BranchStore(clones[0], NAME, push=True).add([]) == 0
    git(clones[1], "fetch", "-q")
    assert runs_on(clones[1]) == ["run-0000", "run-0001"]


def _push(folder: Path, numbers: list[int]) -> None:
    for number in numbers:
        BranchStore(folder, NAME, push=True).add([line(number)])


def test_clones_push_at_once_without_loss(clones: list[Path]) -> None:
    at_once(_push, (clones[0], [0, 2, 4]), (clones[1], [1, 3, 5]))
    git(clones[0], "fetch", "-q")
    assert runs_on(clones[0]) == [f"run-{number:04}" for number in range(6)]


def commit_file(folder: Path, name: str, text: str = "mine") -> None:
    git(folder, "checkout", "-q", NAME)
    (folder / name).write_text(text)
    git(folder, "add", name)
    git(folder, "commit", "-q", "-m", name)
    git(folder, "checkout", "-q", "-")


def test_other_files_of_the_branch_stay(clones: list[Path]) -> None:
    git(clones[0], "branch", NAME)
    commit_file(clones[0], "README")
    BranchStore(clones[0], NAME).add([line(0)])
    assert git(clones[0], "show", f"{NAME}:README") == "mine"


def test_checked_out_branch_is_refused(clones: list[Path]) -> None:
    git(clones[0], "checkout", "-q", "-b", NAME)
    with pytest.raises(GpuperfError, match=r"is checked out.*git switch"):
        BranchStore(clones[0], NAME).add([line(0)])


def test_refusal_of_the_remote_is_told(clones: list[Path]) -> None:
    hook = clones[0].parent / "remote.git" / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(GpuperfError, match=r"cannot be written: git says: .*pre-receive hook declined"):
        BranchStore(clones[0], NAME, push=True).add([line(0)])
    assert runs_on(clones[0]) == ["run-0000"]


@pytest.mark.parametrize("name", ["", "a..b", "@{-1}", "a b", "x.lock", "HEAD", "-f"])
def test_impossible_branch_name_is_refused(clones: list[Path], name: str) -> None:
    with pytest.raises(GpuperfError, match="cannot be on a branch"):
        BranchStore(clones[0], name)


def test_folder_outside_git_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GpuperfError, match="not a git repository"):
        BranchStore(tmp_path, NAME)
