"""Files are written completely or not at all, and links, devices and pipes stay what they are."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.cli import main
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.records.runs import RunStore, recording_path
from pytest_gpuperf.records.writing import write_files
from run_builders import measured, one_test, record, run
from trace_builders import BLOCK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

OUTPUTS = {
    "export": ["export", "--format", "csv", "-o"],
    "plot": ["plot", "::t", "--y", "time_us", "-o"],
    "trace": ["trace", "::b", "--chrome"],
}


@pytest.fixture
def measurements(project: Path) -> Path:
    """Return the folder of a run with times of several sizes and a trace."""
    tests = [record(f"a.py::t[N{size}]", main=measured(size)) for size in (1.0, 2.0)]
    tests.append(record("b.py::b", main=Measurement(trace=BLOCK)))
    folder = RunStore(project / ".gpuperf").write(run(*tests)).parent
    (folder / "traces").mkdir()
    (folder / BLOCK.file).write_bytes(b"{}")
    return folder


def write_by(command: str, path: str) -> str:
    if command == "plot":
        pytest.importorskip("matplotlib")
    result = CliRunner().invoke(main, [*OUTPUTS[command], path])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("command", OUTPUTS)
def test_output_goes_through_a_link(measurements: Path, project: Path, command: str) -> None:
    (project / "far").mkdir()
    (project / "far/file.svg").touch()
    (project / "link.svg").symlink_to("far/file.svg")
    write_by(command, "link.svg")
    assert (project / "link.svg").is_symlink()
    assert (project / "far/file.svg").read_text()


@pytest.mark.parametrize("command", OUTPUTS)
def test_output_goes_into_a_pipe(measurements: Path, project: Path, command: str) -> None:
    pipe = project / "pipe.svg"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    assert write_by(command, "pipe.svg") == ""  # said on standard error
    reader.join(timeout=5)
    assert read[0]
    assert pipe.is_fifo()


@pytest.mark.parametrize("command", OUTPUTS)
def test_full_device_is_an_error_and_stays(measurements: Path, project: Path, command: str) -> None:
    if command == "plot":
        pytest.importorskip("matplotlib")
    (project / "full.svg").symlink_to("/dev/full")
    result = CliRunner().invoke(main, [*OUTPUTS[command], "full.svg"])
    assert result.exit_code == 2
    assert "cannot be written: No space left on device" in result.stderr
    assert (project / "full.svg").is_symlink()


def test_file_that_is_standard_output_is_not_truncated(measurements: Path, project: Path) -> None:
    (project / "link").symlink_to("/proc/self/fd/1")
    with (project / "log").open("w") as log:
        log.write("before\n")
        log.flush()
        fd = os.dup(1)
        os.dup2(log.fileno(), 1)
        try:
            write_files({project / "link": b"data\n"})
        finally:
            os.dup2(fd, 1)
            os.close(fd)
    assert (project / "log").read_text() == "before\ndata\n"


def test_protected_file_stays(measurements: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_by("export", "out.csv")
    before = (project / "out.csv").read_text()
    # Root may write everything.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    result = CliRunner().invoke(main, [*OUTPUTS["export"], "out.csv"])
    assert "out.csv cannot be written: Permission denied" in result.stderr
    assert (project / "out.csv").read_text() == before


def test_link_in_a_circle_is_an_error(measurements: Path, project: Path) -> None:
    (project / "a").symlink_to("b")
    (project / "b").symlink_to("a")
    result = CliRunner().invoke(main, [*OUTPUTS["export"], "a"])
    assert result.exit_code == 2
    assert "a cannot be written: Too many levels of symbolic links" in result.stderr


def test_error_in_the_content_leaves_no_file(project: Path) -> None:
    def broken() -> Sequence[bytes]:
        raise OSError("broken")

    def pieces() -> object:
        yield b"a"
        yield broken()

    with pytest.raises(OSError, match="broken"):
        write_files({project / "new/x": b"", project / "new/y": pieces()})  # type: ignore[dict-item]
    assert list((project / "new").iterdir()) == []


def leftovers(project: Path) -> list[Path]:
    """Make the files that a killed process leaves, and return them."""
    recordings = recording_path(project / "baselines", one_test()).parent
    recordings.mkdir(parents=True)
    names = (".test_square.json.abcd_123.tmp", ".other.json.0123abcd.tmp")
    found = [folder / name for folder in (recordings, recordings.parent) for name in names]
    for path in found:
        path.write_text("{")
    return found


def accept(project: Path) -> None:
    RunStore(project / ".gpuperf").write(one_test())
    result = CliRunner().invoke(main, ["baseline", "accept"])
    assert result.exit_code == 0, result.output


def test_next_write_removes_files_of_killed_processes(project: Path) -> None:
    left = leftovers(project)
    new = left[0].with_name(".new.json.abcd_123.tmp")
    new.touch()  # by a living writer
    for path in left:
        os.utime(path, (0, 0))
    accept(project)
    assert [path for path in (*left, new) if path.exists()] == [new]


def test_similar_files_of_others_stay(project: Path) -> None:
    left = leftovers(project)[0].parent.parent
    names = (".gitignore", ".x.tmp", ".x.json.tmp", "x.json.abcd1234.tmp", ".x.json.ABCD1234.tmp")
    for name in names:
        (left / name).touch()
        os.utime(left / name, (0, 0))
    (left / ".f.json.abcd1234.tmp").mkdir()
    accept(project)
    assert all((left / name).exists() for name in (*names, ".f.json.abcd1234.tmp"))


def test_readers_ignore_leftovers(project: Path) -> None:
    leftovers(project)
    store = BaselineStore(project / "baselines")
    assert store.slugs() == []
    result = CliRunner().invoke(main, ["recording", "list"])
    assert result.stdout == "no recordings in baselines\n"
