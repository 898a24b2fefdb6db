"""`gpuperf doctor`: pytest plugins that disturb measurements."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import pytest

from doctor_builders import machine, said
from pytest_gpuperf.cli.doctor.plugins import DISTURBERS, plugins
from pytest_gpuperf.settings.pytest_config import find_config

if TYPE_CHECKING:
    from pathlib import Path

ALL = tuple(disturber.entry for disturber in DISTURBERS)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the installed plugins; a test adds more."""
    names = ["gpuperf", "benchmark"]
    monkeypatch.setattr(
        "pytest_gpuperf.cli.doctor.plugins.entry_points",
        lambda group: [EntryPoint(name, "module", group) for name in names],
    )
    return names


def at_work(folder: Path, addopts: str = "", **ini: str) -> str:
    """Return the arguments that the fix adds."""
    return plugins(machine(folder, ini={"addopts": addopts, **ini})).fix.removeprefix("pytest --gpuperf ")


def test_plugins_that_do_not_disturb_are_counted(tmp_path: Path, installed: list[str]) -> None:
    expected = ("ok", "none of the 2 installed would disturb a run", "")
    assert said(plugins(machine(tmp_path))) == expected


def test_missing_plugins_are_not_named(tmp_path: Path, installed: list[str]) -> None:
    assert plugins(machine(tmp_path, ini={"addopts": "--cov -n 4"})).state.value == "ok"


def test_one_command_disables_all(tmp_path: Path, installed: list[str]) -> None:
    installed += ["randomly", "pytest_cov"]
    assert said(plugins(machine(tmp_path, ini={"addopts": "-ra --cov=src"}))) == (
        "warning",
        "pytest-randomly shuffles the tests: another heat and other caches before each; pytest-cov traces "
        "Python, which slows launches",
        "pytest --gpuperf -p no:randomly --no-cov",
    )


def test_plugin_that_gpuperf_refuses_is_a_problem(tmp_path: Path, installed: list[str]) -> None:
    installed += ["xdist", "pytest_cov"]
    assert said(plugins(machine(tmp_path, ini={"addopts": "-n auto"}))) == (
        "problem",
        "pytest-xdist shares the tests among processes, which --gpuperf refuses",
        "pytest --gpuperf -n 0",
    )


@pytest.mark.parametrize(
    ("addopts", "fix"),
    [
        ("", "-p no:randomly"),
        ("-p no:randomly", ""),
        ("-pno:randomly", ""),
        ("-p no:randomly -n4", "-n 0"),
        ("-p no:randomly -n 4", "-n 0"),
        ("-p no:randomly -n 4 -n 0", ""),
        ("-p no:randomly -n 1", ""),
        ("-p no:randomly -n 4 --dist no", "-n 0"),
        ("-p no:randomly --numprocesses=4", "-n 0"),
        ("-p no:randomly -n 4 -p no:xdist", ""),
        ("-p no:randomly --dist no", ""),
        ("-p no:randomly -d --tx 2*popen", "-n 0"),
        ("-p no:randomly --forked", "-p no:pytest_forked"),
        ("-p no:randomly --random-order", "-p no:random_order"),
        ("-p no:randomly --cov -q", "--no-cov"),
        ("-p no:randomly --cov src --no-cov", ""),
        ("-p no:randomly --cov-report=xml", ""),
        ("-p no:randomly --timeout=60", "--timeout=0"),
        ("-p no:randomly --timeout=0", ""),
        ("-p no:randomly --reruns 2", "--reruns=0"),
        ("-p no:randomly --reruns-delay 2", ""),
        ("-p no:randomly --durations 5 --no-header", ""),
    ],
)
def test_options_decide_which_plugins_are_active(
    tmp_path: Path, installed: list[str], addopts: str, fix: str
) -> None:
    installed += ALL
    assert at_work(tmp_path, addopts) == fix


def test_keys_of_the_configuration_count_too(tmp_path: Path, installed: list[str]) -> None:
    installed += ["timeout", "rerunfailures"]
    assert at_work(tmp_path, timeout="300", reruns="0") == "--timeout=0"


def test_environment_counts_too(tmp_path: Path, installed: list[str]) -> None:
    installed.append("xdist")
    there = machine(tmp_path, environ={"PYTEST_ADDOPTS": "-n 4"})
    assert plugins(there).fix == "pytest --gpuperf -n 0"
    none = machine(tmp_path, environ={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    assert plugins(none).state.value == "absent"


def test_addopts_are_read_from_toml_and_ini_files(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = ["-ra", "-k", "a or b"]\n', encoding="utf-8"
    )
    config = find_config(tmp_path)
    assert config is not None
    assert config.values["addopts"] == "-ra -k 'a or b'"
