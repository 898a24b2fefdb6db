"""Files that another command reads."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from command_line import gpuperf
from trace_builders import TraceBuilder

if TYPE_CHECKING:
    from pathlib import Path


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
    trace = TraceBuilder()
    trace.kernel("square_kernel", 10.5, 3.25)
    file.write_bytes(gzip.compress(trace.data()) if packed else trace.data())
    result = gpuperf(*command.split(), file.name, status=2)
    assert f"{file.name} is a trace of torch.profiler; expected " in result.stderr
    assert result.stderr.endswith(f"; gpuperf trace {file.name}\n")
