"""`--json` of commands that write files: what they have written and said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from pytest_gpuperf.baseline.merge import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.cli import main
from pytest_gpuperf.records.runs import RunStore
from run_builders import measured, record, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WITHOUT = {
    "baseline record": "prints what pytest prints",
    "fleet worker": "runs until it is ended",
    "export": "writes data: --format json",
    "schema": "prints JSON",
}
"""Commands without `--json`, each with its reason."""


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def test_every_command_has_json_or_a_reason() -> None:
    missing = {
        name
        for name, command in commands(main)
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert missing == set(WITHOUT)


@pytest.fixture
def runs(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Store a run with its baseline."""
    monkeypatch.delenv("CI", raising=False)
    stored = replace(run(record("t.py::test_a", main=measured(5.3))), id="20261120-100000-aaaa")
    RunStore(project / ".gpuperf").write(stored)
    accept(stored, BaselineStore(project / "baselines"), "all", 0.0, environ={})
    return project


def said(*arguments: str) -> Any:
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document.keys() == {"files", "lines"}
    return document


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (("baseline", "pin", "v1"), "baselines/nvidia-h200/t.json"),
        (("comment", "latest", "-o", "comment.md"), "comment.md"),
        (("history", "add"), ""),
        (("merge", "latest", "-o", "merged"), "merged/nvidia-h200/run.json"),
        (("recording", "add"), "baselines/nvidia-h200/recordings/20261120-100000-aaaa.json"),
        (("report", "-o", "report.html"), "report.html"),
    ],
    ids=lambda one: " ".join(one[:2]) if isinstance(one, tuple) else "",
)
def test_files_and_lines_are_a_document(runs: Path, arguments: tuple[str, ...], file: str) -> None:
    document = said(*arguments)
    assert document["files"] == [file] * bool(file)
    assert document["lines"]
    assert all((runs / name).is_file() for name in document["files"])


def test_init_names_its_new_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    document = said("init", "--agents")
    assert document["files"]
    assert all((tmp_path / name).is_file() for name in document["files"])
    assert said("init", "--agents")["files"] == []


def test_an_error_is_no_document(runs: Path) -> None:
    done = CliRunner().invoke(main, ["merge", "20990101", "-o", "merged", "--json"])
    assert done.exit_code == 2
    assert done.stdout == ""


def test_text_has_the_same_lines(runs: Path) -> None:
    lines = CliRunner().invoke(main, ["report", "-o", "a.html"]).output.splitlines()
    assert lines == [line.replace("b.html", "a.html") for line in said("report", "-o", "b.html")["lines"]]
