"""The hash of the code that a test runs: what changes it, and what does not."""

from __future__ import annotations

import importlib
import sys
from importlib.util import spec_from_file_location
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.measure.counters.imported_code import ImportedCode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = {
    "conftest.py": "import helpers_of_all\n",
    "helpers_of_all.py": "",
    "ops/__init__.py": "",
    "ops/square.py": "from .shared import BLOCK\n",
    "ops/shared.py": "BLOCK = 512\ndef late(): importlib.import_module('.relative', __package__)\n",
    "ops/relative.py": "",
    "ops/lazy.py": "",
    "ops/named.py": "",
    "ops/skipped.py": "",
    "ops/other.py": "",
    "registry/__init__.py": """
import importlib, pkgutil
ALL = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
""",
    "registry/registered.py": "",
    "lazily/__init__.py": "def __getattr__(name): ...\n",
    "lazily/asked_for.py": "",
    "starred/__init__.py": "__all__ = ['star']\n",
    "starred/star.py": "",
    "ordinary/__init__.py": "class Settings:\n    def __getattr__(self, name): ...\n",
    "ordinary/other.py": "",
    "csrc/square.cu": "__global__ void square() {}\n",
    "suites/conftest.py": "",
    "suites/test_square.py": """
import pytest
import lazily, ordinary, registry
from starred import *
from ops import square

def test_k():
    import ops.lazy
    pytest.importorskip("ops.named")
    pytest.importorskip(modname="ops.skipped", reason="it is not there")
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
        "ops/skipped.py",
        "ops/relative.py",
        "registry/registered.py",
        "lazily/asked_for.py",
        "starred/star.py",
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
    "name",
    ["ops/other.py", "ordinary/other.py", "suites/test_other.py", "other_suites/conftest.py", "data.json"],
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


def test_a_link_that_leads_nowhere_is_passed_over(project: Path) -> None:
    before = digest(project)
    (project / ".#square.cu").symlink_to("someone@somewhere.4711")
    (project / "csrc" / "square.so").symlink_to(project / "gone.so")
    assert digest(project) == before


def test_a_package_that_only_a_finder_of_its_own_finds_is_followed(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `pip install -e` of setuptools leaves it."""
    source = tmp_path_factory.mktemp("elsewhere") / "editable.py"
    source.write_text("")

    class Finder:
        @staticmethod
        def find_spec(name: str, *_: object) -> object:
            return spec_from_file_location(name, source) if name == "editable" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    (project / "suites" / "test_square.py").write_text("def test_k():\n    import editable\n")
    before = digest(project)
    source.write_text("BLOCK = 512\n")
    assert digest(project) != before
    assert "editable" not in sys.modules


def test_a_variable_that_the_code_names_counts(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "ops" / "shared.py").write_text("import os\nBLOCK = os.getenv('SQUARE_BLOCK')\n")
    before = digest(project)
    monkeypatch.setenv("SQUARE_GRID", "8")
    assert digest(project) == before
    monkeypatch.setenv("SQUARE_BLOCK", "512")
    with_512 = digest(project)
    monkeypatch.setenv("SQUARE_BLOCK", "256")
    assert len({before, with_512, digest(project)}) == 3
