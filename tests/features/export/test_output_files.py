"""Links, devices and pipes that a command writes to stay what they are."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from command_line import gpuperf
from pytest_gpuperf.records.run_store import RunStore
from run_builders import one_test

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


@pytest.fixture
def measured_run(project: Path) -> Path:
    RunStore(project / ".gpuperf").write(one_test())
    return project


def export(path: str, status: int = 0) -> Result:
    return gpuperf("export", "--format", "csv", "-o", path, status=status)


def test_output_goes_through_a_link(measured_run: Path) -> None:
    (measured_run / "far").mkdir()
    (measured_run / "far/file.csv").write_text("mine")
    (measured_run / "link").symlink_to("far/file.csv")
    assert export("link").stdout == ""  # said on standard error
    assert (measured_run / "link").is_symlink()
    assert (measured_run / "far/file.csv").read_text().startswith("nodeid,")


def test_output_goes_into_a_pipe(measured_run: Path) -> None:
    pipe = measured_run / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    assert export("pipe").stdout == ""
    reader.join(timeout=5)
    assert read[0]
    assert pipe.is_fifo()


def test_full_device_is_an_error_and_stays(measured_run: Path) -> None:
    (measured_run / "full").symlink_to("/dev/full")
    assert "full: No space left on device" in export("full", 2).stderr
    assert (measured_run / "full").is_symlink()
