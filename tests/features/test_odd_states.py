"""Every command in a project with a full disk, or with files in odd places, ends with one clear error."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from command_line import gpuperf
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.records.run_store import RunStore, encode_run, recording_path
from run_builders import measured, record, run
from trace_builders import BLOCK, attention_block

RUN = ".gpuperf/runs/20261120-173012-3f9a"
RECORDING = "baselines/nvidia-h200/recordings/20261120-173012-3f9a.json"
COMMANDS = """
baseline accept
baseline accept --dry-run
baseline status
compare ::t
explain
export --format csv
export --format json -o out/rows.json
init
plot ::t --y time_us -o out.svg
record --replace
trace
trace saved.json.gz
""".strip().splitlines()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with a run, its trace, a recording of it and baselines."""
    folder = tmp_path_factory.mktemp("project")
    (folder / ".git").mkdir()
    tests = [record(f"a.py::t[N{size}]", main=measured(float(size))) for size in (1, 2, 4)]
    one = run(*tests, record("b.py::b", main=Measurement(trace=BLOCK)))
    path = RunStore(folder / ".gpuperf").write(one)
    saved = gzip.compress(attention_block().data())
    write_files({path.parent / BLOCK.file: saved, folder / "saved.json.gz": saved})
    write_files({recording_path(folder / "baselines", one): encode_run(one)})
    gpuperf("baseline", "accept", "--root", str(folder), status=0)
    return folder


@pytest.fixture
def copied(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the project, and make it the working directory."""
    monkeypatch.chdir(shutil.copytree(template, tmp_path / "project"))
    return Path.cwd()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _instead(name: str, kind: str) -> None:
    """Put a file, a folder or a link to a name in the place of a path."""
    path = Path(name)
    _remove(path)
    if kind == "file":
        path.write_text("x")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(kind)


PLACES = [
    (".gpuperf", "file"),
    (".gpuperf", "nowhere/at/all"),
    (".gpuperf/runs", "file"),
    (".gpuperf/baselines.lock", "folder"),
    (RUN, "file"),
    (f"{RUN}/run.json", "folder"),
    ("baselines", "file"),
    ("baselines/nvidia-h200", "file"),
    ("baselines/nvidia-h200/a.json", "folder"),
    (RECORDING, "folder"),
]
CONFIGURED = [
    "tool = 3",
    "[tool]\npytest = 3",
    "[[tool.pytest.ini_options]]",
    f'[tool.pytest.ini_options]\ngpuperf_baselines = "{"a" * 5000}"',
]


def tracebacks() -> list[str]:
    """Run every command, and return those without a clear error or an exit status."""
    broken = []
    for command in COMMANDS:
        result = gpuperf(*command.split())
        clear = result.exit_code == 0 or result.stderr.startswith(("gpuperf: error: ", "Usage: "))
        if not isinstance(result.exception, (SystemExit, type(None))) or not clear:
            broken.append(f"{command}: {result.exception!r} {result.output[:200]}")
    return broken


@pytest.mark.parametrize(("name", "kind"), PLACES)
def test_odd_place_never_gives_a_traceback(copied: Path, name: str, kind: str) -> None:
    _instead(name, kind)
    assert tracebacks() == []


@pytest.mark.parametrize("text", CONFIGURED)
def test_odd_configuration_never_gives_a_traceback(copied: Path, text: str) -> None:
    Path("pyproject.toml").write_text(text)
    assert tracebacks() == []


def test_removed_working_directory_never_gives_a_traceback(copied: Path) -> None:
    shutil.rmtree(Path.cwd())
    assert tracebacks() == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_refusing_disk_gives_no_traceback(copied: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number), "somewhere")

    monkeypatch.setattr(os, "fsync", refuse)
    before = {path: path.read_bytes() for path in copied.glob("[!.]*/**/*.json")}
    assert tracebacks() == []
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    assert tracebacks() == []
    assert {path: path.read_bytes() for path in copied.glob("[!.]*/**/*.json")} == before


def test_file_in_the_place_of_a_folder_is_named(copied: Path) -> None:
    _instead(".gpuperf", "file")
    result = gpuperf("export", "--format", "csv")
    assert result.stderr == (
        f"gpuperf: error: {copied / '.gpuperf'}: Not a directory; "
        "move the file away, or name another folder\n"
    )


def test_full_standard_output_is_one_error(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-c", "from pytest_gpuperf.cli import main; main()", "baseline", "status"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "gpuperf: error: standard output: No space left on device; make room on its disk: type `df -h`"
    ]


@pytest.mark.parametrize("command", ["baseline status", "export --format csv"])
def test_closed_standard_output_ends_quietly(copied: Path, command: str) -> None:
    code = f"from pytest_gpuperf.cli import main; main({command.split()})"
    closed = [*["sh", "-c"], '"$@" >&-', "sh", sys.executable, "-c", code]
    ended = subprocess.run(closed, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["export", "--format", "csv", "a" * 5000], "there is no run 'aaa"),
        (["ncu", "a" * 5000], "File name too long"),
        (["export", "--format", "csv", "\udcff"], "there is no run '\\udcff'"),
    ],
)
def test_odd_argument_is_a_short_error(copied: Path, command: list[str], said: str) -> None:
    result = gpuperf(*command, status=2)
    assert said in result.stderr
    assert len(result.stderr) < 600
