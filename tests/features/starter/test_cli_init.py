"""`gpuperf init` in repositories, and its workflow, whose scripts run here."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from inline_snapshot import snapshot

from command_line import gpuperf
from present import present
from pytest_gpuperf._version import requirement
from pytest_gpuperf.features.starter.command import EXAMPLE, WORKFLOW

if TYPE_CHECKING:
    from pathlib import Path

SUITE = f"perf/{EXAMPLE}"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a repository with a package only."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*arguments: str, status: int = 0) -> list[str]:
    return gpuperf("init", *arguments, status=status).output.splitlines()


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_output_names_files_and_next_commands(repository: Path) -> None:
    assert init() == snapshot(
        [
            "wrote  perf/test_perf_example.py",
            "wrote  .github/workflows/gpuperf.yml",
            "",
            "Next, on a machine with a GPU:",
            "  gpuperf doctor                              is it ready to measure?",
            "  pytest --gpuperf perf --gpuperf-update=new  measure, and make that the baseline",
            "  gpuperf record                              let machines without a GPU replay it",
            "Commit the new files in baselines/. From then on, with or without a GPU:",
            "  pytest --gpuperf perf",
        ]
    )
    assert content(repository).keys() == {SUITE, WORKFLOW, "pyproject.toml"}


def test_full_adds_the_comment_and_old_code_in_turn(repository: Path) -> None:
    names = [f".github/workflows/gpuperf-{name}.yml" for name in ("comment", "against")]
    assert init("--full")[2:4] == [f"wrote  {name}" for name in names]
    comment, against = ((repository / name).read_text(encoding="utf-8") for name in names)
    assert f"run: pip install '{requirement()}'" in comment
    measured = yaml.safe_load(against)["jobs"]["measure"]
    *_, install, measure, _ = (step.get("run", "") for step in measured["steps"])
    assert f"install -e . '{requirement('torch,triton,ncu')}'" in install
    assert 'python -m pytest --gpuperf --gpuperf-strict "${tests[@]}"' in measure
    assert "tests=(perf)" in measure
    assert "suites" not in comment + against
    assert "tox" not in comment + against
    accepted = present(re.search(r"\$test =~ (\^.*\$) &&", measure))
    assert re.fullmatch(accepted[1], f"{SUITE}::test_square")


@pytest.mark.parametrize("name", [SUITE, WORKFLOW])
def test_existing_file_is_never_overwritten(repository: Path, name: str) -> None:
    (repository / name).parent.mkdir(parents=True)
    (repository / name).write_text("mine\n", encoding="utf-8")
    assert f"kept   {name}" in init()
    assert (repository / name).read_text(encoding="utf-8") == "mine\n"
    before = content(repository)
    init()
    assert content(repository) == before


def test_existing_suite_gets_no_example(repository: Path) -> None:
    (repository / "perf").mkdir()
    (repository / "perf" / "test_mine.py").touch()
    init()
    assert not (repository / SUITE).exists()


def test_section_for_tox_is_printed_and_not_written(repository: Path) -> None:
    tox = repository / "tox.ini"
    tox.write_text("[tox]\n", encoding="utf-8")
    lines = init()
    assert "[testenv:gpuperf]" in lines
    assert tox.read_text(encoding="utf-8") == "[tox]\n"
    tox.write_text("\n".join(lines[lines.index("[testenv:gpuperf]") :]), encoding="utf-8")
    assert "[testenv:gpuperf]" not in init()


def test_project_below_the_repository_top_gets_no_workflow(repository: Path) -> None:
    below = repository / "packages" / "kernels"
    below.mkdir(parents=True)
    init(str(below))
    assert content(below).keys() == {SUITE}


def test_unwritable_file_stops_all_writing(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    before = content(repository)
    monkeypatch.setattr("os.fsync", full)
    [line] = init(status=2)
    assert line.startswith("gpuperf: error: ")
    assert content(repository) == before


def job_of(repository: Path) -> dict[str, Any]:
    init()
    job: dict[str, Any] = yaml.safe_load((repository / WORKFLOW).read_text("utf-8"))["jobs"]["measure"]
    return job


@pytest.mark.parametrize("remote", ["", "trunk"])
@pytest.mark.parametrize("branch", ["master", "1e3", "null"])
def test_workflow_names_the_main_branch_as_text(repository: Path, branch: str, remote: str) -> None:
    git = ["git", "-C", str(repository)]
    subprocess.run([*git, "init", "-q", "-b", branch], check=True)
    if remote:
        head = ["refs/remotes/origin/HEAD", f"refs/remotes/origin/{remote}"]
        subprocess.run([*git, "symbolic-ref", *head], check=True)
    init()
    workflow: dict[Any, Any] = yaml.safe_load((repository / WORKFLOW).read_text("utf-8"))
    # YAML 1.1 reads the key `on` as true.
    assert workflow[True]["push"]["branches"] == [remote or branch]


def test_measuring_job_has_no_permission_and_skips_forks(repository: Path) -> None:
    job = job_of(repository)
    assert job["permissions"] == {}
    assert "github.event.pull_request.head.repo.full_name == github.repository" in job["if"]
