"""The hash of the code that a test runs: what changes it, and what does not."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.counters.imported_code import ImportedCode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = {
    "conftest.py": "import helpers_of_all\n",
    "helpers_of_all.py": "",
    "ops/__init__.py": "",
    "ops/square.py": "from .shared import BLOCK\n",
    "ops/shared.py": "BLOCK = 512\n",
    "ops/lazy.py": "",
    "ops/named.py": "",
    "ops/other.py": "",
    "csrc/square.cu": "__global__ void square() {}\n",
    "suites/conftest.py": "",
    "suites/test_square.py": """
import pytest
from ops import square

def test_k():
    import ops.lazy
    pytest.importorskip("ops.named")
""",
    "suites/test_other.py": "import ops.other\n",
    "other_suites/conftest.py": "",
    "data.json": "{}",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    for name in ("ops.named", "ops.square"):
        importlib.import_module(name)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def digest(project: Path) -> str:
    return ImportedCode(project).digest(project / "suites" / "test_square.py")


@pytest.mark.parametrize(
    "name",
    [
        "suites/test_square.py",
        "ops/square.py",
        "ops/shared.py",
        "ops/__init__.py",
        "ops/lazy.py",
        "ops/named.py",
        "conftest.py",
        "suites/conftest.py",
        "helpers_of_all.py",
        "csrc/square.cu",
    ],
)
def test_a_change_in_what_the_test_runs_changes_it(project: Path, name: str) -> None:
    before = digest(project)
    assert digest(project) == before
    (project / name).write_text(FILES[name] + "\n\n")
    assert digest(project) != before


@pytest.mark.parametrize(
    "name", ["ops/other.py", "suites/test_other.py", "other_suites/conftest.py", "data.json"]
)
def test_a_change_elsewhere_does_not(project: Path, name: str) -> None:
    before = digest(project)
    (project / name).write_text(FILES[name] + "\n\n")
    assert digest(project) == before


def test_nothing_is_imported_to_find_out(project: Path) -> None:
    (project / "ops" / "lazy.py").write_text("raise AssertionError\n")
    digest(project)
    assert "ops.lazy" not in sys.modules


def test_what_is_installed_below_the_project_is_not_read(project: Path) -> None:
    before = digest(project)
    for folder in (".venv/lib/python3/site-packages/mine", "env/lib/python3/mine"):
        (project / folder).mkdir(parents=True)
        (project / folder / "k.cu").touch()
    (project / "env" / "pyvenv.cfg").touch()
    assert digest(project) == before


def test_a_file_that_is_no_python_is_taken_as_it_is(project: Path) -> None:
    (project / "suites" / "test_square.py").write_text("def (")
    before = digest(project)
    (project / "suites" / "test_square.py").write_text("def ((")
    assert digest(project) != before
