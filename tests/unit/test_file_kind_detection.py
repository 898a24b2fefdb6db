"""Files given to a command that reads another kind."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.file_kind_detection import Kind, kind_of
from pytest_gpuperf.records.run_store import encode_run, load_run
from run_builders import measured, record, run

if TYPE_CHECKING:
    from pathlib import Path

RUN = encode_run(run(record("t.py::test_a", main=measured(5.3))))


def chrome_trace(gpus: int = 1) -> bytes:
    devices = [{"id": number, "name": "NVIDIA H200" + " " * 500} for number in range(gpus)]
    event = {"ph": "X", "cat": "kernel", "name": "square_kernel", "ts": 10.5, "dur": 3.25}
    return json.dumps({"schemaVersion": 1, "deviceProperties": devices, "traceEvents": [event]}).encode()


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


@pytest.mark.parametrize("content", [b"NVR\0\x02", b'==PROF== Profiling "k"\n', b'"ID","Kernel Name","CC"\n'])
def test_run_reader_names_the_command_for_ncu_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(GpuperfError, match=r"run\.json is from Nsight Compute \(ncu\); .*gpuperf ncu "):
        load_run(path)
