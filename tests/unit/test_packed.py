"""Gzipped input, unpacked up to a limit."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.cli import main
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import Measurement, packed
from pytest_gpuperf.records.packed import read_unpacked
from pytest_gpuperf.records.runs import RunStore
from run_builders import record, run
from trace_builders import BLOCK

if TYPE_CHECKING:
    from pathlib import Path


@given(content=st.binary(max_size=200), whole=st.booleans())
def test_any_content_is_read_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, whole: bool
) -> None:
    path = tmp_path_factory.mktemp("packed") / "x"
    path.write_bytes(gzip.compress(content) if whole else b"\x1f\x8b" + content)
    try:
        read = read_unpacked(path, "text")
    except GpuperfError as error:
        assert not whole
        assert "cannot be read" in str(error)  # noqa: PT017
    else:
        assert read == content


@pytest.mark.parametrize(
    ("command", "head"),
    [
        (["trace", "bomb.gz"], b'{"traceEvents": []'),
        (["ncu", "bomb.gz"], b"ID,Kernel Name"),
        (["explain", "bomb.gz"], b"ID,Kernel Name"),
        (["export", "--format", "csv", "bomb.gz"], b'{"started_at": ""'),
        (["trace", "latest", "--chrome", "out.json"], b""),
        (["trace", "latest", "--tensorboard", "out"], b""),
    ],
)
def test_file_that_unpacks_to_too_much_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], head: bytes
) -> None:
    monkeypatch.setattr(packed, "MOST_BYTES", 2**20)
    bomb = gzip.compress(head + b" " * 2**22)
    (project / "bomb.gz").write_bytes(bomb)
    kept = RunStore(project / ".gpuperf").write(run(record(main=Measurement(trace=BLOCK)))).parent
    (kept / "traces").mkdir()
    (kept / BLOCK.file).write_bytes(bomb)
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "unpacks to more than 1 MiB" in result.stderr
    assert "gunzip" in result.stderr
    assert not (project / "out.json").exists()
