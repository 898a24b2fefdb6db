"""Runs whose tests are read one by one."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records import TestRecord
from pytest_gpuperf.records.run_on_disk import RunOnDisk
from pytest_gpuperf.records.runs import encode_run, load_run
from run_builders import measured, record, run

if TYPE_CHECKING:
    from pathlib import Path

RUN = run(*(record(f"t.py::{name}", main=measured()) for name in "aäb"))


def _short(test: TestRecord) -> TestRecord:
    return TestRecord(nodeid=test.nodeid, measurements={})


def _with_spaces(content: bytes) -> bytes:
    return json.dumps(json.loads(content), indent=2).encode()


@pytest.mark.parametrize(
    ("name", "pack"), [("r.json", bytes), ("r.json.gz", gzip.compress), ("r.json", _with_spaces)]
)
def test_each_test_is_read_whole(tmp_path: Path, name: str, pack: type[bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(pack(encode_run(RUN)))
    on_disk = RunOnDisk(path, _short)
    assert on_disk.run.tests == tuple(map(_short, RUN.tests))
    assert [on_disk.test(test.nodeid) for test in reversed(RUN.tests)] == list(reversed(RUN.tests))
    assert on_disk.test("t.py::other") is None


def test_replaced_file_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(encode_run(RUN))
    on_disk = RunOnDisk(path, _short)
    path.unlink()
    path.write_bytes(b"{}")
    assert on_disk.test("t.py::b") == RUN.tests[2]


@pytest.mark.parametrize("content", [b"", encode_run(RUN).replace(b"t.py", b"u.py")])
def test_file_that_was_written_to_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(encode_run(RUN))
    on_disk = RunOnDisk(path, _short)
    path.write_bytes(content)
    with pytest.raises(GpuperfError, match=r"run\.json has changed while it was replayed"):
        on_disk.test("t.py::b")


@pytest.mark.parametrize(
    "content", [None, b"", b"{", encode_run(RUN)[:-20], gzip.compress(encode_run(RUN))[:-9]]
)
def test_errors_are_those_of_a_whole_run(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "run.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GpuperfError) as expected:
        load_run(path)
    with pytest.raises(GpuperfError) as found:
        RunOnDisk(path, _short)
    assert str(found.value) == str(expected.value)


def test_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GpuperfError, match="cannot be read"):
        RunOnDisk(tmp_path, _short)
