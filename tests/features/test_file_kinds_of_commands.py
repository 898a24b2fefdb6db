"""Files that another command reads."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from command_line import gpuperf
from trace_builders import TraceBuilder

if TYPE_CHECKING:
    from pathlib import Path


def chrome_trace(gpus: int = 1) -> bytes:
    trace = TraceBuilder()
    trace.kernel("square_kernel", 10.5, 3.25)
    devices = [{"id": number, "name": "NVIDIA H200" + " " * 500} for number in range(gpus)]
    return trace.data(deviceProperties=devices)


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
    result = gpuperf(*command.split(), file.name, status=2)
    assert f"{file.name} is a trace of torch.profiler; expected " in result.stderr
    assert result.stderr.endswith(f"; gpuperf trace {file.name}\n")


def test_other_json_is_read_as_a_broken_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package.json").write_bytes(b'{"name": "x"}')
    result = gpuperf("explain", "package.json")
    expected = "package.json has a wrong value: Object missing required field `schema`"
    assert expected in result.stderr
