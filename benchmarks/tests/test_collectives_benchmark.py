"""Tests of the benchmark of collectives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks.collectives import SCHEMA, Results, Times, bus_table, loop, read, source, time_printed
from benchmarks.results_file import encode
from run_builders import run

if TYPE_CHECKING:
    from pathlib import Path

PRINTED = """
# nThread 1 nGpus 2 minBytes 1048576 maxBytes 1048576 step: 1048576(bytes) warmup iters: 5 iters: 20
#                                                         out-of-place                     in-place
#  size         count   type   redop   root     time   algbw   busbw  wrong     time   algbw   busbw  wrong
#   (B)    (elements)                           (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
1048576        262144  float     sum     -1    20.15   52.04   52.04    N/A    19.86   52.79   52.79    N/A
# Avg bus bandwidth    : 52.4
"""


@pytest.mark.parametrize(("in_place", "time_us"), [(False, 20.15), (True, 19.86)])
def test_times_of_nccl_tests(in_place: bool, time_us: float) -> None:
    assert time_printed(PRINTED, 2**20, in_place=in_place) == time_us


def test_missing_row() -> None:
    with pytest.raises(ValueError, match="no row of 42 bytes"):
        time_printed(PRINTED, 42, in_place=True)


def results() -> Results:
    times = Times(
        collective="all_gather",
        bytes=2**20,
        plugin_us=(30.0, 10.0, 20.0),
        skew_us=(1.0, 2.0, 3.0),
        loop_us=(10.0,),
    )
    environment = run().environment
    return Results(schema=SCHEMA, date="2026-11-23", environment=environment, world=2, times=(times,))


def test_table_compares_medians() -> None:
    # 1 MiB in 20 µs are 52.4 GB/s, of which half comes over the bus.
    assert bus_table(results()).splitlines()[-1] == "|all_gather|1|20.00|2.00|26.2|52.4 (-50.0 %)|"
    assert source(results()).startswith("2 x NVIDIA H200, ")


def test_loop_on_one_rank(tmp_path: Path) -> None:
    loop(0, 1, "gloo", str(tmp_path), [("all_reduce", 64), ("all_gather", 64)])
    times = json.loads((tmp_path / "0.json").read_text())
    assert len(times) == 2
    assert min(times) > 0


def test_results_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(encode(results()))
    assert read(path) == results()
