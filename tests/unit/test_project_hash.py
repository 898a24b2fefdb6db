"""Changes that the hash of a project notices."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters import project_hash as module
from pytest_gpuperf.measure.counters.project_hash import project_hash

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "README.md": "# Kernels\n",
    "baselines/run.json": "{}",
    "ops/square.py": "BLOCK = 512\n",
    "csrc/square.cu": "__global__ void square() {}\n",
    "suites/test_square.py": "from ops import square\n",
    ".gitignore": "build/\n",
    "build/generated.py": "",
}


@pytest.fixture(params=["git", "no git"])
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    if request.param == "git":
        for command in (["init", "-q"], ["add", "."]):
            subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    else:
        shutil.rmtree(tmp_path / "build")
    return tmp_path


@pytest.mark.parametrize("name", ["ops/square.py", "csrc/square.cu", "suites/test_square.py"])
def test_change_in_any_source_file_changes_the_hash(project: Path, name: str) -> None:
    before = project_hash(project)
    assert project_hash(project) == before
    (project / name).write_text(FILES[name] + "\n")
    assert project_hash(project) != before
    (project / name).write_text(FILES[name])
    assert project_hash(project) == before


@pytest.mark.parametrize("name", ["ops/new.py", "csrc/new.cuh"])
def test_new_untracked_source_file_changes_the_hash(project: Path, name: str) -> None:
    before = project_hash(project)
    (project / name).touch()
    assert project_hash(project) != before


def test_deleted_source_file_changes_the_hash(project: Path) -> None:
    before = project_hash(project)
    (project / "ops" / "square.py").unlink()
    assert project_hash(project) != before


@pytest.mark.parametrize("name", ["README.md", "baselines/run.json", "notes.txt"])
def test_files_that_are_not_sources_do_not_change_the_hash(project: Path, name: str) -> None:
    before = project_hash(project)
    (project / name).write_text("changed")
    assert project_hash(project) == before


def test_ignored_files_and_environments_do_not_change_the_hash(project: Path) -> None:
    before = project_hash(project)
    (project / "env" / "lib").mkdir(parents=True)
    (project / "env" / "pyvenv.cfg").touch()
    (project / ".gitignore").write_text("build/\nenv/\n")
    (project / "env" / "lib" / "k.cu").touch()
    if (project / "build").exists():
        (project / "build" / "generated.py").write_text("changed")
    assert project_hash(project) == before


def test_sources_outside_the_rootdir_count_in_a_repository(tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "src.py").touch()
    subprocess.run(["git", "-C", str(tmp_path), "init", "-q"], check=True)
    before = project_hash(tmp_path / "suites")
    (tmp_path / "src.py").write_text("BLOCK = 256\n")
    assert project_hash(tmp_path / "suites") != before


def test_project_that_an_outer_repository_ignores_is_read(tmp_path: Path) -> None:
    subprocess.run(["git", "-C", str(tmp_path), "init", "-q"], check=True)
    (tmp_path / ".gitignore").write_text("inner\n")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "k.py").touch()
    before = project_hash(tmp_path / "inner")
    (tmp_path / "inner" / "k.py").write_text("BLOCK = 256\n")
    assert project_hash(tmp_path / "inner") != before


def test_broken_link_is_skipped(project: Path) -> None:
    before = project_hash(project)
    (project / ".#square.cu").symlink_to("someone@somewhere.4711")
    assert project_hash(project) == before


def test_unreadable_source_is_an_error(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(f"no permission to read {path}")

    monkeypatch.setattr(type(project), "read_bytes", refuse)
    with pytest.raises(PermissionError):
        project_hash(project)


def test_too_many_sources_are_an_error(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 2)
    with pytest.raises(GpuperfError, match=r"more than 2 source files .*; .*--gpuperf-counter-cache=off"):
        project_hash(project)


def test_environment_variable_that_a_source_names_counts(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "ops" / "square.py").write_text("import os\nBLOCK = os.getenv('SQUARE_BLOCK')\n")
    before = project_hash(project)
    monkeypatch.setenv("SQUARE_GRID", "8")
    assert project_hash(project) == before
    found = {before}
    for name, value in (("SQUARE_BLOCK", "512"), ("SQUARE_BLOCK", "256"), ("TRITON_INTERPRET", "1")):
        monkeypatch.setenv(name, value)
        found.add(project_hash(project))
    assert len(found) == 4


def test_installed_versions_count(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = tmp_path / ".venv" / "site-packages"
    (site / "kernels-1.0.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    before = project_hash(project)
    (site / "kernels-1.0.dist-info").rename(site / "kernels-1.1.dist-info")
    assert project_hash(project) != before


def test_sources_of_editable_distributions_count(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("elsewhere")
    about = folder / "site-packages" / "kernels-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "source").mkdir()
    (folder / "source" / "k.py").touch()
    url = (folder / "source").as_uri()
    (about / "direct_url.json").write_text(f'{{"url": "{url}", "dir_info": {{"editable": true}}}}')
    monkeypatch.setattr(sys, "path", [*sys.path, str(about.parent)])
    before = project_hash(project)
    (folder / "source" / "k.py").write_text("BLOCK = 256\n")
    assert project_hash(project) != before
