"""Worktrees of old code, and errors of git."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from against_project import Project
from pytest_gpuperf.against.git import Commit, Repository
from pytest_gpuperf.against.worktree import link_ignored, old_tree
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.processes.git import GitError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path / "kernels")
    monkeypatch.setattr("tempfile.tempdir", str(made.temporary))
    made.commit({"kernel.py": "old = 1\n"})
    return made


def repository(project: Project) -> Repository:
    return Repository.around(project.root)


def head(project: Project) -> Commit:
    return repository(project).commit("HEAD")


def test_worktree_has_committed_files_only(project: Project) -> None:
    project.write({"kernel.py": "new = 1\n", "untracked.py": ""})
    with old_tree(repository(project), head(project)) as old:
        assert (old.root / "kernel.py").read_text() == "old = 1\n"
        assert not (old.root / "untracked.py").exists()
        assert old.root.name == "kernels"
    assert (project.root / "kernel.py").read_text() == "new = 1\n"
    assert project.leftovers() == []


def test_no_branch_is_made_and_no_hook_is_run(project: Project) -> None:
    hook = project.root / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {project.root.parent}/hooked\n")
    hook.chmod(0o755)
    with old_tree(repository(project), head(project)):
        assert project.git("branch", "--format=%(refname:short)") == "main"
    assert not (project.root.parent / "hooked").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_worktree_is_always_removed(project: Project, error: type[BaseException]) -> None:
    def run_tests() -> None:
        with old_tree(repository(project), head(project)) as old:
            (old.root / "made_by_a_test").write_text("x")
            raise error

    with pytest.raises(error):
        run_tests()
    assert project.leftovers() == []


def test_a_worktree_whose_folder_is_gone_is_forgotten(project: Project) -> None:
    with old_tree(repository(project), head(project)) as old:
        old.root.rename(project.root.parent / "elsewhere")
    assert project.leftovers() == []


def test_next_run_removes_the_worktree_of_a_killed_one(project: Project) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from pytest_gpuperf.against.git import Repository\n"
        "from pytest_gpuperf.against.worktree import old_tree\n"
        "repository = Repository.around(Path.cwd())\n"
        "with old_tree(repository, repository.commit('HEAD')):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], cwd=project.root, env=project.environment())
    assert killed.returncode == -signal.SIGKILL
    assert len(project.leftovers()) == 2  # one in git, one in the temporary folder
    with old_tree(repository(project), head(project)):
        assert len(project.leftovers()) == 2
    assert project.leftovers() == []


def test_worktree_of_a_live_run_stays(project: Project) -> None:
    with old_tree(repository(project), head(project)) as one:
        with old_tree(repository(project), head(project)) as other:
            assert one.root != other.root
        assert (one.root / "kernel.py").exists()


@pytest.mark.parametrize("name", ["mine", "gpuperf-against-notes", "gpuperf-against-x1y2z3"])
def test_other_worktrees_stay_even_in_a_folder_with_our_prefix(project: Project, name: str) -> None:
    mine = Path(tempfile.gettempdir()) / name / "repo"
    project.git("worktree", "add", "--quiet", "--detach", str(mine))
    (mine / "uncommitted").write_text("x")
    try:
        with old_tree(repository(project), head(project)):
            pass
        assert (mine / "uncommitted").read_text() == "x"
    finally:
        shutil.rmtree(mine.parent)


def test_checkout_in_a_folder_with_our_prefix_stays(project: Project, tmp_path: Path) -> None:
    notes = tmp_path / "gpuperf-against-notes"
    notes.mkdir()
    (notes / "uncommitted").write_text("x")
    project.root.rename(notes / "repo")
    main = Repository.around(notes / "repo")
    with old_tree(main, main.commit("HEAD")):
        pass
    assert (notes / "uncommitted").read_text() == "x"
    assert (notes / "repo" / ".git").exists()


def test_generated_modules_and_compiled_extensions_are_linked(project: Project) -> None:
    project.commit({".gitignore": "_version.py\n*.so\n*.bin\nbuild/\n", "pkg/__init__.py": ""})
    ignored = ("pkg/_version.py", "pkg/_C.so", "pkg/weights.bin", "build/made.py", "new/_version.py")
    project.write(dict.fromkeys(ignored, "x"))
    with old_tree(repository(project), head(project)) as old:
        link_ignored(repository(project), old)
        assert [name for name in ignored if (old.root / name).exists()] == ["pkg/_version.py", "pkg/_C.so"]
    assert (project.root / "pkg" / "_C.so").read_text() == "x"


def test_old_tracked_file_is_not_replaced_by_a_link(project: Project) -> None:
    project.commit({"_version.py": "old"})
    old_commit = head(project)
    project.git("rm", "--quiet", "_version.py")
    project.commit({".gitignore": "_version.py\n"})
    project.write({"_version.py": "new"})
    with old_tree(repository(project), old_commit) as old:
        link_ignored(repository(project), old)
        assert (old.root / "_version.py").read_text() == "old"


def test_commit_keeps_the_typed_name(project: Project) -> None:
    commit = project.git("rev-parse", "HEAD")
    assert str(repository(project).commit("main")) == f"main ({commit[:7]})"
    assert str(repository(project).commit(commit[:9])) == commit[:9]


@pytest.mark.parametrize("ref", ["nope", "-x", "main..main", "^main", "main:kernel.py"])
def test_unknown_commit_shows_the_message_of_git(project: Project, ref: str) -> None:
    with pytest.raises(GpuperfError) as raised:
        repository(project).commit(ref)
    message = str(raised.value)
    assert message.startswith(
        f"--gpuperf-against={ref}: git says: Needed a single revision; expected a branch"
    )
    assert message.endswith("git branch --all and git tag list what there is")


def test_remote_branch_is_suggested(project: Project, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    project.git("switch", "--quiet", "--create", "feature")
    project.git("clone", "--quiet", ".", str(clone))
    with pytest.raises(GpuperfError, match=r"did you mean origin/main\?"):
        Repository.around(clone).commit("main")


def test_shallow_clone_gets_a_next_step(project: Project, tmp_path: Path) -> None:
    project.commit({"kernel.py": "new = 1\n"})
    clone = tmp_path / "clone"
    project.git("clone", "--quiet", "--depth=1", f"file://{project.root}", str(clone))
    with pytest.raises(GpuperfError, match="this clone is shallow: fetch-depth: 0 in actions/checkout"):
        Repository.around(clone).commit("HEAD~1")


def test_missing_git_is_named(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project.temporary))
    with pytest.raises(GpuperfError, match="git cannot be run"):
        Repository.around(project.root)


def test_index_of_a_git_hook_stays_unchanged(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    index = project.root.parent / "index"
    monkeypatch.setenv("GIT_INDEX_FILE", str(index))
    monkeypatch.setenv("GIT_DIR", ".git")
    with old_tree(repository(project), head(project)):
        pass
    assert not index.exists()


def test_failed_worktree_shows_the_error_of_git(project: Project) -> None:
    project.commit({".gitattributes": "*.py filter=broken\n"})
    for key, value in (("smudge", "false"), ("required", "true")):
        project.git("config", f"filter.broken.{key}", value)
    with pytest.raises(GpuperfError) as raised, old_tree(repository(project), head(project)):
        pass
    assert "Preparing worktree" not in str(raised.value)
    assert "external filter 'false' failed 1" in str(raised.value)
    assert "smudge filter broken failed" in str(raised.value)
    assert project.leftovers() == []


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ("Preparing worktree (detached HEAD 1a2b3c4)\nfatal: no room\n", "no room"),
        ("Updating files:  50% (1/2)\rUpdating files: 100%\nerror: a\nhint: b\nfatal: c\n", "a; c"),
        ("warning: a\ngit: 'worktree' is not a git command.\n", "git: 'worktree' is not a git command."),
        ("", "exit status 9"),
    ],
)
def test_errors_of_git_are_found_among_other_lines(
    project: Project, monkeypatch: pytest.MonkeyPatch, stderr: str, said: str
) -> None:
    def fails(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, 9, b"", stderr.encode())

    monkeypatch.setattr(subprocess, "run", fails)
    with pytest.raises(GitError) as raised:
        Repository(project.root).git("worktree", "add")
    assert str(raised.value) == said


def test_reference_with_a_nul_character_is_an_error(project: Project) -> None:
    with pytest.raises(GpuperfError, match="git cannot be run: embedded null byte"):
        repository(project).commit("a\0b")
