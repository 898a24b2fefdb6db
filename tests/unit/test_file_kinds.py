"""Files given to a command that reads another kind."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pytest_gpuperf.cli import main
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.file_kinds import Kind, kind_of
from pytest_gpuperf.records.runs import encode_run, load_run
from run_builders import measured, record, run
from trace_builders import TraceBuilder

if TYPE_CHECKING:
    from pathlib import Path

RUN = encode_run(run(record("t.py::test_a", main=measured(5.3))))


def chrome_trace(gpus: int = 1) -> bytes:
    trace = TraceBuilder()
    trace.kernel("square_kernel", 10.5, 3.25)
    devices = [{"id": number, "name": "NVIDIA H200" + " " * 500} for number in range(gpus)]
    return trace.data(deviceProperties=devices)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (RUN, "run"),
        (b"\n " + RUN, "run"),
        (chrome_trace(), "trace"),
        (chrome_trace(gpus=16), "trace"),
        (b"{}", "json"),
        (b'[{"ph": "X"}]', "json"),
        (b'"ID","Kernel Name"\n', "other"),
        (b"NVR\0", "other"),
        (b"", "other"),
    ],
)
def test_content_tells_the_kind_of_a_file(tmp_path: Path, content: bytes, kind: Kind) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    assert kind_of(file) == kind
    file.write_bytes(gzip.compress(content))
    assert kind_of(file) == kind


@pytest.mark.parametrize("damaged", [b"\x1f\x8b", gzip.compress(RUN, mtime=0)[:-9], b"\x1f\x8b" + RUN])
def test_broken_gzip_file_is_of_another_kind(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "x").write_bytes(damaged)
    assert kind_of(tmp_path / "x") == "other"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "command",
    ["compare", "explain", "plot -o x.svg", "export --format csv", "baseline accept", "record", "ncu"],
)
def test_trace_is_refused_by_other_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, packed: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "worker0.pt.trace.json"
    file.write_bytes(gzip.compress(chrome_trace()) if packed else chrome_trace())
    result = CliRunner().invoke(main, [*command.split(), file.name])
    assert result.exit_code == 2, result.output
    assert f"{file.name} is a trace of torch.profiler; expected " in result.stderr
    assert result.stderr.endswith(f"; gpuperf trace {file.name}\n")


def test_other_json_is_read_as_a_broken_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package.json").write_bytes(b'{"name": "x"}')
    result = CliRunner().invoke(main, ["explain", "package.json"])
    expected = "package.json has a wrong value: Object missing required field `schema`"
    assert expected in result.stderr


@pytest.mark.parametrize("content", [b"NVR\0\x02", b'==PROF== Profiling "k"\n', b'"ID","Kernel Name","CC"\n'])
def test_run_reader_names_the_command_for_ncu_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(GpuperfError, match=r"run\.json is from Nsight Compute \(ncu\); .*gpuperf ncu "):
        load_run(path)
