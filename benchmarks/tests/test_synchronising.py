"""Samples of calls that synchronise the host, and their table."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from benchmarks.gate_power.samples import Began, Failed, SessionSample, read
from benchmarks.synchronising.__main__ import sample
from benchmarks.synchronising.tables import verdicts
from pytest_gpuperf.records import SingleCall, Timing

if TYPE_CHECKING:
    import pytest


def session(process: int, permille: int, time_us: float, host_us: float) -> SessionSample:
    timing = Timing(
        mode="kernels",
        source="cupti",
        time_us=time_us,
        spread_pct=0.2,
        blocks_us=(time_us,) * 20,
        calls_per_block=5,
        single_call=SingleCall(host_us=host_us),
    )
    return SessionSample(
        process=process, kernel="loss", permille=permille, card="GPU-1", timing=timing, seconds=0.5
    )


def test_table_judges_kernels_not_the_host() -> None:
    noise = Random(3)
    lines = [
        session(process, dose, noise.gauss(1, 0.001) * time_us, noise.uniform(250, 420))
        for process in range(20)
        for dose, time_us in ((0, 100.0), (50, 105.0))
    ]
    (row,) = (line for line in verdicts(lines).splitlines() if line.startswith("|loss"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[4:] == ["0, 0/40", "20, 20/20"]
    assert "-" in cells[3]


def test_each_process_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    path = tmp_path / "samples.jsonl.gz"
    sample(path, 2, "fake_children:session")
    lines = read([path])
    assert [line.process for line in lines if isinstance(line, SessionSample)] == [0, 1]
    assert sum(isinstance(line, Began) for line in lines) == 2
    assert sum(isinstance(line, Failed) for line in lines) == 2
