"""The project of a command, and its configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click
import pytest

from command_line import gpuperf
from pytest_gpuperf.cli.project import Project, find_project, find_root

if TYPE_CHECKING:
    from pathlib import Path


CONFIGS = {
    "pytest.ini": "[pytest]\ngpuperf_baselines = perf/expected\ngpuperf_tolerance = 20\n",
    "pytest.toml": "[pytest]\ngpuperf_baselines = 'perf/expected'\ngpuperf_tolerance = '20'\n",
    "pyproject.toml": (
        "[tool.pytest.ini_options]\ngpuperf_baselines = 'perf/expected'\ngpuperf_tolerance = 20\n"
    ),
    "tox.ini": "[tox]\n[pytest]\ngpuperf_baselines = perf/expected\ngpuperf_tolerance = 20\n",
    "setup.cfg": "[tool:pytest]\ngpuperf_baselines = perf/expected\ngpuperf_tolerance = 20\n",
}


@pytest.mark.parametrize("name", CONFIGS)
def test_project_equals_that_of_pytest(project: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    root, below = project / "package", project / "package" / "tests" / "gpu"
    below.mkdir(parents=True)
    (root / name).write_text(CONFIGS[name], encoding="utf-8")
    (root / "tests" / "tox.ini").write_text("[tox]\nenvlist = py\n", encoding="utf-8")
    monkeypatch.chdir(below)
    values = find_project().values
    found = Project(root=root, baselines=root / "perf" / "expected", tolerance_pct=20.0, values=values)
    assert find_project() == found
    assert find_project(baselines=below) == replace(found, baselines=below)


def test_empty_pytest_ini_comes_first(project: Path) -> None:
    (project / "pytest.ini").touch()
    (project / "tox.ini").write_text(CONFIGS["tox.ini"], encoding="utf-8")
    assert find_project().baselines == project / "baselines"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("pytest.ini", "[pytest\n", "pytest.ini cannot be read"),
        ("pyproject.toml", "[tool", "pyproject.toml cannot be read"),
        ("pytest.ini", "[pytest]\ngpuperf_tolerance = much\n", "gpuperf_tolerance is 'much'"),
    ],
)
def test_broken_configuration_is_named(project: Path, name: str, text: str, said: str) -> None:
    (project / name).write_text(text, encoding="utf-8")
    assert gpuperf("baseline", "status", status=2).output.startswith(f"gpuperf: error: {said}")


def test_root_is_the_nearest_folder_with_runs_or_git(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "package" / ".gpuperf").mkdir(parents=True)
    (tmp_path / "package" / "tests").mkdir()
    (tmp_path / "docs").mkdir()
    assert find_root(tmp_path / "package" / "tests") == tmp_path / "package"
    assert find_root(tmp_path / "docs") == tmp_path


@pytest.mark.skipif(not hasattr(click, "NoSuchCommand"), reason="an older click suggests nothing")
def test_misspelt_command_gets_a_suggestion() -> None:
    assert "Did you mean 'baseline'?" in gpuperf("basline", status=2).output
