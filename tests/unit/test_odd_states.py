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
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from pytest_gpuperf.cli import main
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.records.runs import RunStore, encode_run, recording_path
from pytest_gpuperf.records.writing import write_files
from run_builders import measured, record, run
from trace_builders import BLOCK, attention_block

if TYPE_CHECKING:
    from collections.abc import Callable

RUN = ".gpuperf/runs/20261120-173012-3f9a"
RECORDING = "baselines/nvidia-h200/recordings/20261120-173012-3f9a.json"
COMMANDS = """
baseline accept
baseline accept --dry-run
baseline pin v1
baseline unpin
baseline status
baseline record
clean --dry-run
clean --keep 1
compare ::t
explain
export --format csv
export --format json -o out/rows.json
init
plot ::t --y time_us -o out.svg
record --replace
recording list
trace
trace saved.json.gz
trace ::b --chrome out.json
trace ::b --tensorboard log
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
    write_files(
        {
            path.parent / BLOCK.file: saved,
            folder / "saved.json.gz": saved,
            recording_path(folder / "baselines", one): encode_run(one),
        }
    )
    accepted = CliRunner().invoke(main, ["baseline", "accept", "--root", str(folder)])
    assert accepted.exit_code == 0, accepted.output
    return folder


@pytest.fixture
def copied(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the project, and make it the working directory."""
    monkeypatch.chdir(shutil.copytree(template, tmp_path / "project"))
    return Path.cwd()


def file_at(name: str) -> Callable[[], object]:
    def change() -> None:
        _remove(Path(name))
        Path(name).write_text("x")

    return change


def folder_at(name: str) -> Callable[[], object]:
    def change() -> None:
        _remove(Path(name))
        Path(name).mkdir()

    return change


def link_at(name: str, target: str) -> Callable[[], object]:
    def change() -> None:
        _remove(Path(name))
        Path(name).symlink_to(target)

    return change


def pipe_at(name: str) -> Callable[[], object]:
    def change() -> None:
        _remove(Path(name))
        os.mkfifo(name)

    return change


def configured(text: str) -> Callable[[], object]:
    return lambda: Path("pyproject.toml").write_text(text)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


STATES: dict[str, Callable[[], object]] = {
    "a file as .gpuperf": file_at(".gpuperf"),
    "a file as runs": file_at(".gpuperf/runs"),
    "a file as run folder": file_at(RUN),
    "a folder as run": folder_at(f"{RUN}/run.json"),
    "a file as traces": file_at(f"{RUN}/traces"),
    "a folder as lock": folder_at(".gpuperf/baselines.lock"),
    "a file as baselines": file_at("baselines"),
    "a pipe as baselines": pipe_at("baselines"),
    "a file as folder of the GPU": file_at("baselines/nvidia-h200"),
    "a folder as baseline": folder_at("baselines/nvidia-h200/a.json"),
    "a dangling link as baseline": link_at("baselines/nvidia-h200/a.json", "nowhere"),
    "a file as recordings": file_at("baselines/nvidia-h200/recordings"),
    "a folder as recording": folder_at(RECORDING),
    "a link to itself as baselines": link_at("baselines", "baselines"),
    "a link to itself as .gpuperf": link_at(".gpuperf", ".gpuperf"),
    "a dangling link as .gpuperf": link_at(".gpuperf", "nowhere/at/all"),
    "tool is a number": configured("tool = 3"),
    "pytest is a number": configured("[tool]\npytest = 3"),
    "ini_options is a list": configured("[[tool.pytest.ini_options]]"),
    "pytest.toml with a number": lambda: Path("pytest.toml").write_text("pytest = 3"),
    "NUL in a setting": configured('[tool.pytest.ini_options]\ngpuperf_baselines = "a\\u0000b"'),
    "long name of baselines": configured(f'[tool.pytest.ini_options]\ngpuperf_baselines = "{"a" * 5000}"'),
    "removed working directory": lambda: shutil.rmtree(Path.cwd()),
}


def tracebacks() -> list[str]:
    """Run every command, and return those without a clear error or an exit status."""
    broken = []
    for command in COMMANDS:
        result = CliRunner().invoke(main, command.split())
        clear = result.exit_code == 0 or result.stderr.startswith(("gpuperf: error: ", "Usage: "))
        if not isinstance(result.exception, (SystemExit, type(None))) or not clear:
            broken.append(f"{command}: {result.exception!r} {result.output[:200]}")
    return broken


@pytest.mark.parametrize("state", STATES)
def test_odd_project_never_gives_a_traceback(copied: Path, state: str) -> None:
    STATES[state]()
    assert tracebacks() == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
def test_disk_that_refuses_never_gives_a_traceback(
    copied: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number), "somewhere")

    monkeypatch.setattr(os, "fsync", refuse)
    before = {path: path.read_bytes() for path in copied.glob("[!.]*/**/*.json")}
    assert tracebacks() == []
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    assert tracebacks() == []
    assert {path: path.read_bytes() for path in copied.glob("[!.]*/**/*.json")} == before


def test_file_in_the_place_of_a_folder_is_named(copied: Path) -> None:
    STATES["a file as .gpuperf"]()
    result = CliRunner().invoke(main, ["export", "--format", "csv"])
    assert result.stderr == (
        f"gpuperf: error: {copied / '.gpuperf'}: Not a directory; "
        "move the file away, or name another folder\n"
    )


def test_full_standard_output_is_one_error(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-c", "from pytest_gpuperf.cli import main; main()", "recording", "list"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "gpuperf: error: standard output: No space left on device; make room on its disk: type `df -h`"
    ]


@pytest.mark.parametrize("command", ["baseline status", "recording list", "export --format csv", "metrics"])
def test_closed_standard_output_ends_quietly(copied: Path, command: str) -> None:
    code = f"from pytest_gpuperf.cli import main; main({command.split()})"
    closed = [*["sh", "-c"], '"$@" >&-', "sh", sys.executable, "-c", code]
    ended = subprocess.run(closed, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["export", "--format", "csv", "a" * 5000], "there is no run 'aaa"),
        (["compare", "a" * 5000], "there is no run 'aaa"),
        (["trace", "a" * 5000], "there is no run 'aaa"),
        (["explain", "a" * 5000], "there is no run 'aaa"),
        (["baseline", "accept", "a/" * 2500], "there is no run 'a/a"),
        (["ncu", "a" * 5000], "File name too long"),
        (["export", "--format", "csv", "-o", "a" * 5000], "File name too long"),
        (["trace", "a\0b"], "an argument has a NUL character"),
        (["baseline", "pin", "v1\udcff"], "the pin 'v1\\udcff' has no name that can be written"),
        (["baseline", "pin", "a\nb"], "has no name that can be written"),
        (
            ["baseline", "pin", "v1", "--only", "\udcff"],
            "there is no time to pin in \N{REPLACEMENT CHARACTER}",
        ),
        (["export", "--format", "csv", "\udcff"], "there is no run '\\udcff'"),
    ],
)
def test_odd_argument_is_a_short_error(copied: Path, command: list[str], said: str) -> None:
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr) < 600


@pytest.mark.parametrize("tolerance", ["nan", "inf", "-inf", "1e400", "1e300", "-1", "0", "ten"])
def test_impossible_tolerance_is_refused_by_every_command(copied: Path, tolerance: str) -> None:
    for command in ("accept", "diff", "record"):
        result = CliRunner().invoke(main, ["baseline", command, "--tolerance", tolerance])
        assert result.exit_code == 2
        assert "Invalid value for '--tolerance'" in result.stderr
    configured(f"[tool.pytest.ini_options]\ngpuperf_tolerance = '{tolerance}'")()
    if tolerance != "0":
        result = CliRunner().invoke(main, ["baseline", "diff"])
        assert "expected a number from 0 to 1,000" in result.stderr
