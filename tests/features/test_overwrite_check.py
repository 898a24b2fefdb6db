"""Files of others stay; files of earlier calls are written again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from command_line import gpuperf
from pytest_gpuperf.cli import main
from pytest_gpuperf.records import Measurement, Timing
from pytest_gpuperf.records.run_store import RunStore
from run_builders import record, run

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = {
    "report": ["report", "-o", "out.html"],
    "comment": ["comment", "latest", "-o", "out.md"],
    **{form: ["export", "--format", form, "-o", "out"] for form in ("csv", "json")},
    "plot": ["plot", "latest", "-o", "out.svg"],
}


def call(name: str) -> None:
    gpuperf(*COMMANDS[name], status=0)


@pytest.fixture
def with_run(project: Path) -> Path:
    blocks = (5.0, 5.1, 5.0, 5.2, 5.0)
    timing = Timing(mode="hot", time_us=5.06, spread_pct=1.0, blocks_us=blocks, calls_per_block=10)
    tests = [record(f"t/test_a.py::test_a[{size}]", main=Measurement(timing=timing)) for size in (1, 2)]
    RunStore(project / ".gpuperf").write(run(*tests))
    return project


@pytest.mark.parametrize("name", COMMANDS)
def test_file_of_an_earlier_call_is_written_again(with_run: Path, name: str) -> None:
    path = with_run / COMMANDS[name][-1]
    call(name)
    before = path.stat().st_ino
    call(name)
    assert path.stat().st_ino != before


@pytest.mark.parametrize("name", list(COMMANDS))
def test_file_of_others_is_refused_before_anything_is_read(project: Path, name: str) -> None:
    arguments = COMMANDS[name]
    path = project / arguments[-1]
    path.write_text("mine, drawn by pytest-gpuperf")
    done = gpuperf(*arguments, status=2)
    assert f"{path.name} exists and is not an output of pytest-gpuperf" in done.output
    assert done.output.endswith("add --force\n")
    assert path.read_text() == "mine, drawn by pytest-gpuperf"


def test_run_and_baseline_stay(with_run: Path) -> None:
    gpuperf("baseline", "accept", status=0)
    for path in (*with_run.glob(".gpuperf/runs/*/run.json"), *with_run.glob("baselines/*/test_a.json")):
        assert "is not an output" in gpuperf("export", "--format", "csv", "-o", path, status=2).output


def test_force_replaces_a_file_of_others(with_run: Path) -> None:
    (with_run / "out").write_text("mine")
    gpuperf(*COMMANDS["csv"], "--force", status=0)
    assert (with_run / "out").read_text().startswith("nodeid,")


def test_empty_file_is_nobodys(with_run: Path) -> None:
    (with_run / "out").touch()
    call("csv")


def test_each_command_that_writes_a_file_has_force() -> None:
    found = {}

    def visit(name: str, command: object) -> None:
        options = {name for parameter in getattr(command, "params", ()) for name in parameter.opts}
        if "-o" in options:
            found[name] = "--force" in options
        for of in getattr(command, "list_commands", lambda _: ())(None):
            visit(f"{name} {of}".strip(), command.get_command(None, of))  # type: ignore[attr-defined]

    visit("", main)
    names = ("comment", "export", "plot", "report")
    assert found == dict.fromkeys(names, True) | {"merge": False}  # a new folder
