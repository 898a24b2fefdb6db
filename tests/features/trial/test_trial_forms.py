"""The form of problem files, and the cases of a trial; nothing here runs the files."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trial.cases import Task, cases_of, read_task
from pytest_gpuperf.features.trial.problem_forms import FORMS, form_of

if TYPE_CHECKING:
    from pathlib import Path


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_problem_of_no_form_names_what_is_missing(tmp_path: Path) -> None:
    problem = written(tmp_path / "p.py", "class Model: ...\ndef get_inputs(): ...\n")
    with pytest.raises(GpuperfError, match=r"p\.py does not define get_init_inputs; expected a problem"):
        form_of(problem)


@given(st.binary(max_size=200))
def test_any_bytes_have_a_form_or_a_reason(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.py"
    path.write_bytes(data)
    with suppress(GpuperfError):
        assert form_of(path) in FORMS


def test_task_file_gives_checked_and_timed_cases(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    both = '  - {"size": 8, "seed": 2}\n'
    written(tmp_path / "task.yml", f'tests:\n  - {{"size": 3, "seed": 1}}\n{both}benchmarks:\n{both}')
    cases = cases_of("gpu-mode", read_task(tmp_path / "reference.py"), ())
    assert [(one.name, one.timed) for one in cases] == [("size=3, seed=1", False), ("size=8, seed=2", True)]


def test_given_cases_replace_those_of_the_task() -> None:
    cases = cases_of("gpu-mode", Task(tests=[{"size": 3}]), ["size=1024,flag=True,kind=cauchy,scale=0.5"])
    (case,) = cases
    assert case.arguments == {"size": 1024, "flag": True, "kind": "cauchy", "scale": 0.5}
    assert case.timed


@pytest.mark.parametrize("text", ["1024", "size", "=3", "a-b=3"])
def test_case_without_name_is_refused(text: str) -> None:
    with pytest.raises(GpuperfError, match="expected arguments such as size=1024,seed=1"):
        cases_of("gpu-mode", None, [text])


def test_kernelbench_takes_no_cases() -> None:
    with pytest.raises(GpuperfError, match="get_inputs of KernelBench takes no arguments"):
        cases_of("kernelbench", None, ["size=3"])


def test_broken_task_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    written(tmp_path / "task.yml", "tests: 3\n")
    with pytest.raises(GpuperfError, match=r"task\.yml cannot be read: .*; expected YAML"):
        read_task(tmp_path / "reference.py")


def test_task_file_without_pyyaml_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    written(tmp_path / "task.yml", "tests: []\n")
    with pytest.raises(GpuperfError, match=r"PyYAML is not installed; type pip install"):
        read_task(tmp_path / "reference.py")


@pytest.mark.parametrize("text", ["class Model\n", "x = '\0'\n"])
def test_problem_that_is_not_python_is_explained(tmp_path: Path, text: str) -> None:
    with pytest.raises(GpuperfError, match=r"p\.py(:1)? is not Python: "):
        form_of(written(tmp_path / "p.py", text))
