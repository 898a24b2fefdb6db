"""Packed files that commands refuse."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from command_line import gpuperf
from pytest_gpuperf.records import Measurement, files
from pytest_gpuperf.records.run_store import RunStore
from run_builders import record, run
from trace_builders import BLOCK

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("command", "head"),
    [
        (["trace", "bomb.gz"], b'{"traceEvents": []'),
        (["ncu", "bomb.gz"], b"ID,Kernel Name"),
        (["explain", "bomb.gz"], b"ID,Kernel Name"),
        (["export", "--format", "csv", "bomb.gz"], b'{"started_at": ""'),
    ],
)
def test_file_that_unpacks_to_too_much_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], head: bytes
) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 2**20)
    bomb = gzip.compress(head + b" " * 2**22)
    (project / "bomb.gz").write_bytes(bomb)
    kept = RunStore(project / ".gpuperf").write(run(record(main=Measurement(trace=BLOCK)))).parent
    (kept / "traces").mkdir()
    (kept / BLOCK.file).write_bytes(bomb)
    result = gpuperf(*command, status=2)
    assert "unpacks to more than 1 MiB" in result.stderr
    assert "gunzip" in result.stderr
    assert not (project / "out.json").exists()
