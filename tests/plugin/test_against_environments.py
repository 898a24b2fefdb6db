"""`--gpuperf-against=python:PATH`: old code in another virtual environment, with real ones and a fake GPU."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from against_environment import KERNELS, empty_environment, environment
from against_project import ARGUMENTS, Project
from present import present
from pytest_gpuperf.against.build import builds
from pytest_gpuperf.against.interpreter import Installed, changes, check_plugin, installed, parse
from pytest_gpuperf.against.sides import Sides
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.passes import Invocation

TEST = "from kernels import kernel\ndef test_k(gpuperf): gpuperf.time(kernel)\n"


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make two environments: `new` is that of the run."""
    folder = tmp_path_factory.mktemp("environments")
    environment(folder / "new", 2, 12.0, registers=40)
    environment(folder / "old", 1, 10.0)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "repo")
    made.commit({"kernels.py": KERNELS, "test_k.py": TEST})
    return made


def run(
    project: Project, environments: Path, against: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the tests in the new environment."""
    python = environments / "new" / "bin" / "python"
    return subprocess.run(
        [python, "-m", "pytest", *ARGUMENTS, f"--gpuperf-against={against}", *arguments],
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
    assert "in turn, 2 restarts, old code python:old, " in done.stdout
    assert "    copy_kernel: registers per thread 32 -> 40" in done.stdout
    assert "python:old: fast-kernels 1 -> 2\n" in done.stdout
    assert project.leftovers() == []
    assert str(environments) not in max(project.root.rglob("run.json")).read_text()


def test_an_environment_like_that_of_the_run_passes_without_git(project: Project, environments: Path) -> None:
    shutil.rmtree(project.root / ".git")
    twin = environment(environments / "twin", 2, 12.0, registers=40)
    done = run(project, environments, f"python:{twin}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "python:twin: no package differs\n" in done.stdout
    assert project.compared()["test_k"].old_us == 12.0


def test_a_commit_is_built_and_runs_in_an_environment_of_the_checkout(
    project: Project, environments: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.temporary))
    commit = project.commit({".gitignore": "old env\n"})
    project.write({"kernels.py": KERNELS + "kernel = lambda: TIME_US + 8\n"})
    environment(project.root / "old env", 1, 10.0)
    build = """-ogpuperf_build=sh -c "python -c 'import sys; print(sys.prefix)' > {prefix}/built_by" """
    done = run(project, environments, "python:old env@main", build)
    assert "20 µs (" in done.stdout, done.stdout + done.stderr
    found = project.compared()["test_k"]
    assert (found.ref, found.commit) == ("python:old env@main", commit)
    assert (found.old_us, found.new_us) == (10.0, 20.0)
    assert f"old code python:old env@main ({commit[:7]})" in done.stdout
    (built_by,) = builds().rglob("built_by")
    assert built_by.read_text() == f"{project.root}/old env\n"


def test_test_that_fails_in_the_other_environment_has_a_reason(project: Project, environments: Path) -> None:
    project.commit({"kernels.py": KERNELS.replace("return TIME_US", "return 1 / (TIME_US - 10)")})
    run(project, environments, f"{environments}/old")
    found = project.settlements()["test_k"]
    assert (found.how, found.against and found.against.commit) == ("impossible", "")
    assert found.reason.startswith("on python:old its call ended with ZeroDivisionError")


@pytest.mark.parametrize(
    ("place", "why"),
    [("nowhere", "No such file or directory"), ("folder", "No such file"), ("other", "does not answer")],
)
def test_a_path_without_a_python_is_an_error(tmp_path: Path, place: str, why: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").symlink_to("/bin/echo")
    program, ref = parse(f"python:{tmp_path / place}")
    with pytest.raises(
        GpuperfError, match=f"{place}.*: {why}.*; expected the folder of a virtual env"
    ) as one:
        installed(present(program))
    assert not ref
    assert one.value.next_step == "type --gpuperf-against=python:PATH, or python:PATH@REF with a commit"


def test_paths_and_commits_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a@b" / "bin").mkdir(parents=True)
    python = tmp_path / "a@b" / "bin" / "python"
    assert [parse("a@b"), parse("~v@1")] == [(None, "a@b"), (None, "~v@1")]
    assert parse("python:a@b") == parse(f"python:{tmp_path}/a@b/") == (python, "")
    assert parse("python:a@b@main") == (python, "main")
    Path("a@b/pyvenv.cfg").touch()
    assert [parse("a@b/"), parse("a@b@main")] == [(python, ""), (python, "main")]


def test_an_environment_that_lacks_a_package_names_the_command(tmp_path: Path) -> None:
    python, _ = empty_environment(tmp_path / "bare")
    with pytest.raises(GpuperfError, match="its environment lacks ") as found:
        check_plugin(python, installed(python))
    assert found.value.next_step.startswith(f"{python} -m pip install '")
    assert "'msgspec>=" in found.value.next_step
    assert "torch" not in found.value.next_step


def test_a_package_or_python_that_is_too_old_is_lacking() -> None:
    versions = installed(Path(sys.executable)).versions
    check_plugin(Path("python"), Installed("", versions))
    with pytest.raises(GpuperfError, match=r"its environment lacks pytest>=8.*; .* install 'pytest>=8"):
        check_plugin(Path("python"), Installed("", {**versions, "pytest": "7.4"}))
    with pytest.raises(GpuperfError, match=r"its environment lacks python>=3.*; .* -m venv FOLDER$"):
        check_plugin(Path("python"), Installed("", {**versions, "python": "3.9.18"}))


def test_all_versions_that_differ_are_named_but_the_plugins_own() -> None:
    old = Installed("", {"triton": "3.5.1", "gone": "1", "same": "2", "pytest-gpuperf": "0.1"})
    new = Installed("", {"triton": "3.6.0", "added": "1", "same": "2"})
    assert changes(old, new) == ["added none -> 1", "gone 1 -> none", "triton 3.5.1 -> 3.6.0"]


def test_pytest_finds_the_plugin_in_an_environment_without_it(tmp_path: Path) -> None:
    sides = Sides(tmp_path, Path("python"), None, None, Invocation((), tmp_path, tmp_path), tmp_path)
    (found,) = distributions(path=[sides.command("A")[1]])
    assert [(one.group, one.name, one.value) for one in found.entry_points if one.group == "pytest11"] == [
        ("pytest11", "gpuperf", "pytest_gpuperf.plugin.entry")
    ]
